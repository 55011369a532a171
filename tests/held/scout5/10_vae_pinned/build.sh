#!/bin/sh
${NVCC:-nvcc} -O2 -g -std=c++14 vae.cu -o train -lcublas
