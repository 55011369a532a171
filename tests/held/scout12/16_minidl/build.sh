#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -Iinclude -c lib/ops.cu -o ops.o
${NVCC:-nvcc} -O2 -g -Iinclude -c lib/nn.cu -o nn.o
rm -f libminidl.a
ar rcs libminidl.a ops.o nn.o
${NVCC:-nvcc} -O2 -g -Iinclude examples/spiral.cu -L. -lminidl -o train
