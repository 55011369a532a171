#!/bin/sh
${NVCC:-nvcc} -O2 -g -std=c++14 gan.cu -o train
