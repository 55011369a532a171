#!/bin/sh
set -e
CXXF="-O2 -g -std=c++14 -Iinclude"
for s in tensor layers optimizer loss; do
    ${NVCC:-nvcc} $CXXF -c lib/$s.cu -o lib/$s.o
done
rm -f libnn.a
ar rcs libnn.a lib/tensor.o lib/layers.o lib/optimizer.o lib/loss.o
${NVCC:-nvcc} $CXXF app/classify.cu libnn.a -o train
