#!/bin/sh
set -e
"${NVCC:-nvcc}" -O2 -g train.cu -o train
