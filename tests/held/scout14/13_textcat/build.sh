#!/bin/sh
set -e
NVCC=${NVCC:-nvcc}
$NVCC -O2 -g -std=c++17 -I lib -c lib/classifier.cu -o classifier.o
$NVCC -O2 -g -std=c++17 -I lib -c lib/corpus.cu -o corpus.o
rm -f libtextcat.a
ar rcs libtextcat.a classifier.o corpus.o
$NVCC -O2 -g -std=c++17 -I lib app/main.cu -L. -ltextcat -o train
