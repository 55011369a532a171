#!/bin/sh
${NVCC:-nvcc} -O2 -g -o train nn.cu -lcublas
