#!/bin/sh
${NVCC:-nvcc} -O2 -g fit.cu -o train
