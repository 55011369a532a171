#!/bin/sh
${NVCC:-nvcc} -O2 -g -c layer.cu -o layer.o
${NVCC:-nvcc} -O2 -g -c main.cu -o main.o
${NVCC:-nvcc} -O2 -g layer.o main.o -o train
