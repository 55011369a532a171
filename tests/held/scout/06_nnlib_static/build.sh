#!/bin/sh
set -e
make NVCC="${NVCC:-nvcc}"
