#!/bin/sh
set -e
# batch and window are fixed at compile time
${NVCC:-nvcc} -O2 -g -DBATCH_SIZE=48 -DWINDOW=12 lstm.cu -o train
