#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g fm.cu -o train
