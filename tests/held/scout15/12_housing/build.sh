#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++11 linreg.cu -o train -lcublas
