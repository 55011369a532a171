#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++14 -c mlp.cu -o mlp.o
${NVCC:-nvcc} -O2 -g -std=c++14 -c gan.cu -o gan.o
${NVCC:-nvcc} mlp.o gan.o -o train
