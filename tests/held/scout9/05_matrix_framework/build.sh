#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++14 -Isrc src/main.cu src/matrix.cu src/linear_layer.cu src/activations.cu src/bce_cost.cu src/neural_network.cu src/dataset.cu -o train
