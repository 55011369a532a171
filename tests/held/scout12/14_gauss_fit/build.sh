#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++11 fit.cu adam.cpp -o train
