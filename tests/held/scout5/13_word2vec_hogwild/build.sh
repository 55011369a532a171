#!/bin/sh
${NVCC:-nvcc} -O2 -g w2v.cu -o train
