#!/bin/sh
${NVCC:-nvcc} -O2 -g -std=c++14 fit.cu -o train
