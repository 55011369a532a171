#!/bin/sh
set -e
for f in kernels network main; do
    ${NVCC:-nvcc} -O2 -g -std=c++14 -c src/$f.cu -o $f.o
done
${NVCC:-nvcc} main.o network.o kernels.o -o train
