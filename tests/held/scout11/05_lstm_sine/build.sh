#!/bin/sh
${NVCC:-nvcc} -O2 -g -std=c++14 lstm.cu -lcublas -o train
