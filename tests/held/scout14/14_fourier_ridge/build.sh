#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++17 ridge.cu -o train -lcublas
