#!/bin/sh
set -e
"${NVCC:-nvcc}" -O2 -g charlm.cu -o train -lcublas
