#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++14 dqn.cu -o train
