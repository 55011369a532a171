#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++14 -c src/model.cu -o model.o
${NVCC:-nvcc} -O2 -g -std=c++14 -c src/main.cu -o main.o
${NVCC:-nvcc} model.o main.o -o train
