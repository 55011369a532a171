#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++14 -Ilib -c lib/tape.cu -o tape.o
rm -f libtinytape.a
ar rcs libtinytape.a tape.o
${NVCC:-nvcc} -O2 -g -std=c++14 -Ilib app/main.cu -L. -ltinytape -lcublas -o train
