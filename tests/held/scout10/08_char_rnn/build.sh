#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g char_rnn.cu -o train
