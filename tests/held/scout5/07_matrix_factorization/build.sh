#!/bin/sh
# the Makefile does the same
${NVCC:-nvcc} -O2 -g -std=c++11 mf.cu kernels.cu -o train
