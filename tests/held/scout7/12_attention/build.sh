#!/bin/sh
set -e
NVCC="${NVCC:-nvcc}"
for f in gemm attention optimizer; do
    $NVCC -O2 -g -Iinclude -c lib/$f.cu -o lib/$f.o
done
ar rcs lib/libnn.a lib/gemm.o lib/attention.o lib/optimizer.o
$NVCC -O2 -g -Iinclude train.cu -o train -Llib -lnn
rm -f lib/*.o lib/libnn.a
