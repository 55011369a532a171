#!/bin/sh
set -e
"${NVCC:-nvcc}" -O2 -g *.cu -o train -lcublas
