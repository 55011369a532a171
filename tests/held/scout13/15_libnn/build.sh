#!/bin/sh
set -e
NVCC=${NVCC:-nvcc}
FLAGS="-O2 -g -std=c++14 -I."
rm -f libnn.a
for f in modules optim; do
    $NVCC $FLAGS -c nn/$f.cu -o $f.o
done
ar rcs libnn.a modules.o optim.o
$NVCC $FLAGS -c app/rings.cu -o rings.o
$NVCC rings.o -L. -lnn -o train
