#!/bin/sh
set -e
NVCC=${NVCC:-nvcc}
$NVCC -O2 -g -std=c++14 -c src/layers.cu -o layers.o
$NVCC -O2 -g -std=c++14 -c src/main.cu -o main.o
$NVCC -O2 -g layers.o main.o -o train
