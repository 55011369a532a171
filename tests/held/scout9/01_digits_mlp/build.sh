#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g main.cu -o train
