#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g vae.cu -o train
