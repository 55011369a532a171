#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++14 -c qnet.cu -o qnet.o
${NVCC:-nvcc} -O2 -g -std=c++14 dqn.cu qnet.o -o train
