#!/bin/sh
${NVCC:-nvcc} -O2 -g train_lm.cu -lcublas -o train
