#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++14 -c ops.cu
${NVCC:-nvcc} -O2 -g -std=c++14 -c main.cu
${NVCC:-nvcc} ops.o main.o -lcublas -o train
