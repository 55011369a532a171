#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g svm.cu -o train
