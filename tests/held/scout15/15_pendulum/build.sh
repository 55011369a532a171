#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++17 pendulum.cu -o train
