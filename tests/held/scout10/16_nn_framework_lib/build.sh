#!/bin/sh
set -e
NVCC="${NVCC:-nvcc}"
for f in matrix linear_layer relu_sigmoid bce_cost neural_network; do
    $NVCC -O2 -g -std=c++14 -c nn/$f.cu -o nn/$f.o
done
rm -f nn/libnn.a
ar rcs nn/libnn.a nn/*.o
$NVCC -O2 -g -std=c++14 main.cu -o train -Lnn -lnn
