#!/bin/sh
${NVCC:-nvcc} -O2 -g autoencoder.cu -o train -lcublas
