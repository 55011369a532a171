#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++14 tiny_gpt.cu -o train
