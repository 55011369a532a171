#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -DBATCH=32 -DSEQ=10 lstm.cu -o train
