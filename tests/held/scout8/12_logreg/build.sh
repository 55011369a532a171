#!/bin/sh
${NVCC:-nvcc} -O2 -g -std=c++11 logreg.cu -o train -lcublas
