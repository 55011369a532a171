#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g fit_potential.cu -o train
