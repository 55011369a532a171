#!/bin/sh
set -e
NVCC=${NVCC:-nvcc}
FLAGS="-O2 -g -std=c++14 -Iinclude"
mkdir -p build
for f in conv pool dense loss optimizer sequential; do
    $NVCC $FLAGS -c src/$f.cu -o build/$f.o
done
rm -f build/libmininn.a
ar rcs build/libmininn.a build/conv.o build/pool.o build/dense.o build/loss.o build/optimizer.o build/sequential.o
$NVCC $FLAGS -c app/main.cu -o build/main.o
$NVCC build/main.o -Lbuild -lmininn -o train
