#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++11 -I. main.cu neural_network.cu layers/linear_layer.cu layers/activations.cu nn_utils/matrix.cu nn_utils/bce_cost.cu -o train
