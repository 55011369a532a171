#!/bin/sh
${NVCC:-nvcc} -O2 -g rnn.cu -o train
