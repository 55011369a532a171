#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g autoencoder.cu -o train -lcublas
