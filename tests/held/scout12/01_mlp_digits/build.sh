#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g mlp.cu -o train
