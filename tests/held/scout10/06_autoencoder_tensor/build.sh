#!/bin/sh
set -e
mkdir -p build
CC="${NVCC:-nvcc} -O2 -g -std=c++14 -Iinclude"
$CC -c src/ops.cu -o build/ops.o
$CC -c src/main.cu -o build/main.o
$CC build/ops.o build/main.o -o train
