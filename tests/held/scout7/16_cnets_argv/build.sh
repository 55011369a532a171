#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -I. main.cu net.cu data.cu -o train
