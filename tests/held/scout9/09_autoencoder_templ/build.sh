#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++17 autoencoder.cu -o train
