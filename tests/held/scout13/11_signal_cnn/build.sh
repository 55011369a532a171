#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g signal.cu -o train
