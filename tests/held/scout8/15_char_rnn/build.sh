#!/bin/sh
NVCC=${NVCC:-nvcc}
$NVCC -O2 -g -c rnn.cu -o rnn.o
$NVCC -O2 -g -c main.cpp -o main.o
$NVCC -O2 -g -o train main.o rnn.o
