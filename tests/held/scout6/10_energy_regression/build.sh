#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++11 energy.cu -o train -lcublas
