#!/bin/sh
${NVCC:-nvcc} -O2 -g -std=c++14 train.cu model.cu -o train
