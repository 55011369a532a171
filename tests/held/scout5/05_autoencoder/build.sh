#!/bin/sh
${NVCC:-nvcc} -O2 -g -std=c++17 -Iinclude src/autoencoder.cu -o train
