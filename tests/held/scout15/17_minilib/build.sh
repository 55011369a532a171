#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++14 -c lib/mini.cu -o mini.o
rm -f libmini.a
ar rcs libmini.a mini.o
${NVCC:-nvcc} -O2 -g -std=c++14 app.cpp -o train -L. -lmini -lcublas
