#!/bin/sh
${NVCC:-nvcc} -O2 -g digits.cu -o train
