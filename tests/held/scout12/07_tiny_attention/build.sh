#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g train_attn.cu -o train
