#!/bin/sh
${NVCC:-nvcc} -O2 -g svm.cu -o train
