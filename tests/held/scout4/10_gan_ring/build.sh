#!/bin/sh
${NVCC:-nvcc} -O2 -g gan.cu -o train
