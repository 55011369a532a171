#!/bin/sh
set -e
NVCC=${NVCC:-nvcc}
OBJ=
for s in utils conv1d_layer connected_layer softmax_layer network cloth; do
    $NVCC -O2 -g -c src/$s.cu -o $s.o
    OBJ="$OBJ $s.o"
done
$NVCC $OBJ -o train
