#!/bin/sh
${NVCC:-nvcc} -O2 -g -std=c++11 w2v.cu -o train
