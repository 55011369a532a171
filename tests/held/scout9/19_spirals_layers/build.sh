#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g spirals.cu -o train
