#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g nn.cu -lcublas -o train
