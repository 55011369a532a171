#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g bn.cu -o train
