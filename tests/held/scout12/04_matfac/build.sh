#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g mf.cu -o train
