#!/bin/sh
set -e
NVCC="${NVCC:-nvcc}"
$NVCC -O2 -g -c vae.cu -o vae.o
$NVCC -O2 -g -c kernels.cu -o kernels.o
ar rcs libkernels.a kernels.o
$NVCC -O2 -g vae.o -o train -L. -lkernels
rm -f vae.o kernels.o libkernels.a
