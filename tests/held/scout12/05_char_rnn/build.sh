#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g rnn.cu -o train
