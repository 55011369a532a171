#!/bin/sh
set -e
NVCC=${NVCC:-nvcc}
for f in tensor optim; do
    $NVCC -O2 -g -std=c++14 -c lib/$f.cu -o lib/$f.o
done
ar rcs lib/libtg.a lib/tensor.o lib/optim.o
$NVCC -O2 -g -std=c++14 main.cu lib/libtg.a -o train
