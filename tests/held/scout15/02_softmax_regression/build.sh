#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++14 softmax_regression.cu -o train -lcublas
