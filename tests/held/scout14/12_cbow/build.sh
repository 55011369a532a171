#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++11 cbow.cu -o train
