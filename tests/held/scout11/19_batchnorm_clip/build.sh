#!/bin/sh
${NVCC:-nvcc} -O2 -g -std=c++14 bn.cu -o train -lcublas
