#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g word2vec.cu -o train
