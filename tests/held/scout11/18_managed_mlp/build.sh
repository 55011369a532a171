#!/bin/sh
${NVCC:-nvcc} -O2 -g mlp.cu -o train
