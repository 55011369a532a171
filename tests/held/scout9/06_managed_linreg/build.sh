#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g poly.cu -o train
