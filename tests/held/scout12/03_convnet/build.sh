#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++14 -Isrc src/main.cu src/layers.cu src/data.cpp -o train
