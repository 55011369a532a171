#!/bin/sh
set -e
"${NVCC:-nvcc}" -O2 -g poisson.cu -o train -lcublas
