#!/bin/sh
${NVCC:-nvcc} -O2 -g main.cu mf.cu -o train
