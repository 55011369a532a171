#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g logistic.cu -o train
