#!/bin/sh
set -e
NVCC=${NVCC:-nvcc}
for f in blob layers solver main; do
    $NVCC -O2 -g -std=c++17 -c src/$f.cu -o $f.o
done
$NVCC blob.o layers.o solver.o main.o -o train
