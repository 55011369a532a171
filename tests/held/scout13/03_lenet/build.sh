#!/bin/sh
set -e
NVCC=${NVCC:-nvcc}
for f in layers optimizer main; do
    $NVCC -O2 -g -std=c++14 -Isrc -c src/$f.cu -o $f.o
done
$NVCC layers.o optimizer.o main.o -o train
