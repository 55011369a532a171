#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g -std=c++11 main.cpp qnet.cu -o train -lcudart
