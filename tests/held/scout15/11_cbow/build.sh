#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++14 word2vec.cu -o train -lcublas
