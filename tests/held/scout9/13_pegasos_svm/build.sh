#!/bin/sh
set -e
NVCC=${NVCC:-nvcc}
$NVCC -O2 -g -std=c++14 svm.cu -o train
