#!/bin/sh
${NVCC:-nvcc} -O2 -g -o train sgns.cu
