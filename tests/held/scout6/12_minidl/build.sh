#!/bin/sh
set -e
NVCC=${NVCC:-nvcc}
for f in tensor layers loss optim; do
    $NVCC -O2 -g -std=c++14 -Iinclude -c src/$f.cu -o $f.o
done
rm -f libminidl.a
ar rcs libminidl.a tensor.o layers.o loss.o optim.o
$NVCC -O2 -g -std=c++14 -Iinclude train_rings.cu libminidl.a -o train
