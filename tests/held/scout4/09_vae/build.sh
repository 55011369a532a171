#!/bin/sh
${NVCC:-nvcc} -O2 -g -std=c++17 vae.cu -lcublas -o train
