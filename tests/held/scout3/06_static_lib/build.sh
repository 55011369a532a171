#!/bin/sh
set -e
"${NVCC:-nvcc}" -O2 -g -c nn/nn.cu -o nn/nn.o
ar rcs nn/libnn.a nn/nn.o
"${NVCC:-nvcc}" -O2 -g *.cu nn/libnn.a -o train -lcublas
