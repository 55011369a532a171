#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -x cu svm.c -o train -lm
