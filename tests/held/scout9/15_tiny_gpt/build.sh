#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g train_gpt.cu -o train
