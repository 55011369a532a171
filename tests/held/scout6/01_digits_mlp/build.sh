#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g mnist_nn.cu -o train
