#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++17 vae.cu -o train
