#!/bin/sh
${NVCC:-nvcc} -O2 -g -std=c++17 mf.cu -o train
