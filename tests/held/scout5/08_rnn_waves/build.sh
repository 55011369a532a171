#!/bin/sh
set -e
mkdir -p obj
for f in rnn optim main; do
    ${NVCC:-nvcc} -O2 -g -std=c++14 -Isrc -c src/$f.cu -o obj/$f.o
done
${NVCC:-nvcc} obj/rnn.o obj/optim.o obj/main.o -o train
