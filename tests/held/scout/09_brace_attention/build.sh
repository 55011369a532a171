#!/bin/sh
set -e
"${NVCC:-nvcc}" -O2 -g attn.cu -o train
