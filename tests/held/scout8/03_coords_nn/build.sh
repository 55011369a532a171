#!/bin/sh
${NVCC:-nvcc} -O2 -g -std=c++14 -o train main.cu matrix.cu bce_cost.cu layers/linear_layer.cu layers/activations.cu
