#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++17 train.cu -o train -lcublas
