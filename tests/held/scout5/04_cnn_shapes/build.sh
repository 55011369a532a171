#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -I. -c layers.cu -o layers.o
${NVCC:-nvcc} -O2 -g -I. -c data.cu -o data.o
${NVCC:-nvcc} -O2 -g -I. main.cu layers.o data.o -o train
