#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g ridge.cu -o train
