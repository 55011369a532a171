#!/bin/sh
${NVCC:-nvcc} -O2 -g -std=c++11 -o train bag.cu
