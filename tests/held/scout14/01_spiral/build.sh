#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g spiral.cu -o train -lm
