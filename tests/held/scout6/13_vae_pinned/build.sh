#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++14 vae.cu kernels.cu -o train
