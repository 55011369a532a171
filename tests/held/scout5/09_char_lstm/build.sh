#!/bin/sh
${NVCC:-nvcc} -O2 -g -x cu lstm.cu -o train
