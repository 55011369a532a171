#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++11 -c kernels.cu -o kernels.o
${NVCC:-nvcc} -O2 -g -std=c++11 -c train.cu -o train.o
${NVCC:-nvcc} kernels.o train.o -o train
