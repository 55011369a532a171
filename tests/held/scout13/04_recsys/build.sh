#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g recsys.cu -o train
