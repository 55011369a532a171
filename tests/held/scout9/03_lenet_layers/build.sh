#!/bin/sh
set -e
NVCC=${NVCC:-nvcc}
$NVCC -O2 -g -c layer.cu -o layer.o
$NVCC -O2 -g -c main.cu -o main.o
$NVCC -O2 -g layer.o main.o -o train
