#!/bin/sh
set -e
NVCC=${NVCC:-nvcc}
$NVCC -O2 -g -std=c++17 -Iinclude -c src/tensor.cu -o tensor.o
$NVCC -O2 -g -std=c++17 -Iinclude -c src/nn.cu -o nn.o
rm -f libminigrad.a
ar rc libminigrad.a tensor.o nn.o
$NVCC -O2 -g -std=c++17 -Iinclude spiral.cu -L. -lminigrad -o train
