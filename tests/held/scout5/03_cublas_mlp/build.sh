#!/bin/sh
${NVCC:-nvcc} -O2 -g -std=c++11 mlp.cu -o train -lcublas
