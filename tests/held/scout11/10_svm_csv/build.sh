#!/bin/sh
${NVCC:-nvcc} -O2 -g -DBATCH=80 svm.cu -o train
