#!/bin/sh
${NVCC:-nvcc} -O2 -g lstm.cu -lcublas -o train
