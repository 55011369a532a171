#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++14 -I. -c dense.cu -o dense.o
rm -f libdense.a
ar rcs libdense.a dense.o
${NVCC:-nvcc} -O2 -g -std=c++14 -I. main.cu libdense.a -lcublas -o train
