#!/bin/sh
${NVCC:-nvcc} -O2 -g -std=c++11 bpnet.cu -lcublas -o train
