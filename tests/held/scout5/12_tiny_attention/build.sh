#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g train.cu model.cu dataloader.cu -o train -lm
