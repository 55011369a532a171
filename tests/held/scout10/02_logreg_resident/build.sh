#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g logreg.cu -o train
