#!/bin/sh
${NVCC:-nvcc} -O2 -g -std=c++17 gan.cu -o train
