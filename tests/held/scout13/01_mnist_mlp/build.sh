#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g mnist.cu -o train
