#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++14 char_rnn.cu -o train -lcublas
