#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++14 main.cu layers/layers.cu util/matrix.cu -o train
