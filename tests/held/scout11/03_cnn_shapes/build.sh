#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++14 -Isrc src/main.cu src/layer.cu src/dataset.cpp -o train
