#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g w2v.cu -o train
