#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g matfac.cu ratings.cpp -o train
