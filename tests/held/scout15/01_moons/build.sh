#!/bin/sh
set -e
${NVCC:-nvcc} -O2 -g moons.cu -o train
