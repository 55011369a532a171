#!/bin/sh
${NVCC:-nvcc} -O2 -g rbm.cu -lcublas -o train
