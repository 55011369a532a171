#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g gru.cu -o train
