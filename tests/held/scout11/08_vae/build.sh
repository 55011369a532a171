#!/bin/sh
${NVCC:-nvcc} -O2 -g -std=c++17 -I. vae.cu -o train
