#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -DMICRO=32 -DACCUM=4 accum.cu -o train
