#!/bin/sh
${NVCC:-nvcc} -O2 -g -o train w2v.cu
