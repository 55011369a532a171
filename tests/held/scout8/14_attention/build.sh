#!/bin/sh
${NVCC:-nvcc} -O2 -g -std=c++14 attn_classifier.cu -lcublas -o train
