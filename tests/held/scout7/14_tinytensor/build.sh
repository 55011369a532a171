#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++14 -I. tensor.cu ops.cu main.cu -o train -lcublas
