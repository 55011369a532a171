#!/bin/sh
set -e
NV="${NVCC:-nvcc}"
$NV -O2 -g -Isrc src/main.cu src/conv.cu src/dense.cu src/pool.cu src/dataset.cpp -o train
