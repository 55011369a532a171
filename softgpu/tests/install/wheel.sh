#!/usr/bin/env bash
# wheel.sh WHEEL HEADERS - what users of pip install works: in an environment of its own softgpu-cc compiles a program, which runs; a program
# that calls cuBLAS needs no other library; a C++ program without CUDA sources finds the runtime. The toolkit's folder is
# complete. The programs need no newer glibc than the wheel's name says. Removing the wheel leaves nothing.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib/lib.sh"
wheel=$1 headers=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/softgpu-wheel.XXXXXX")
at_exit 'rm -rf "$work"'
shown=$work/out
source "$(dirname "${BASH_SOURCE[0]}")/installed.sh"
install_wheel "$wheel" "$headers"
cd "$work"

cat >train.cu <<'END_CU'
#include <cstdio>
#include <cublas_v2.h>

__global__ void fill(float *x) { x[threadIdx.x] = threadIdx.x; }

int main()
{
    float *x, sum = 0;
    cublasHandle_t handle;
    if (cudaMalloc(&x, 4 * sizeof(float)) != cudaSuccess || cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS)
        return 1;
    fill<<<1, 4>>>(x);
    cublasSasum(handle, 4, x, 1, &sum);
    std::printf("the sum is %g\n", sum);
}
END_CU
cat >devices.cpp <<'END_CPP'
#include <cstdio>
#include <cuda_runtime.h>
int main()
{
    int devices = 0;
    cudaGetDeviceCount(&devices);
    std::printf("devices %d\n", devices);
}
END_CPP

# ---- without the toolkit's folder ----
check "softgpu-cc compiles a program" exits 0 softgpu-cc -O0 train.cu -lcublas -o train
check "which runs" exits 0 ./train
check "and computes" says "the sum is 6"
check "softgpu-cc says its version" exits 0 softgpu-cc --version
version=${wheel##*/softgpu-}
check "that of the wheel" says "softgpu-cc ${version%%-*}"

mkdir -p other/bin other/include other/lib64 project # a toolkit of the system, first in the PATH
printf '#!/bin/sh\necho "Cuda compilation tools, release 13.0, V13.0.1"\n' >other/bin/nvcc
chmod +x other/bin/nvcc
touch other/include/cuda_runtime.h other/lib64/libcudart.so
echo '#define CUDART_VERSION 13000' >other/include/cuda_runtime_api.h
check "it shows its steps" exits 0 env "PATH=$PWD/other/bin:$PATH" softgpu-cc --dry-run train.cu
check "with the wheel's headers, not those of a system's toolkit" says "#$ INCLUDES=\"-I$(realpath "$headers")\""
check "it shows its steps with CUDA_HOME" exits 0 env CUDA_HOME=other softgpu-cc --dry-run train.cu
check "which is the user's choice" says "#$ INCLUDES=\"-I$(realpath other/include)\""

# ---- the toolkit's folder ----
check "the module names the toolkit's folder" exits 0 python3 -m softgpu toolkit
toolkit=$(cat out)
for file in bin/nvcc include/cuda_runtime.h lib64/libcudart.so lib64/libcudart.so.13 targets/x86_64-linux/include/cuda_runtime.h \
    targets/x86_64-linux/lib/libcudart.so; do
    check "which has $file" [ -s "$toolkit/$file" ]
done
check "and the variables of build systems" exits 0 python3 -m softgpu env
check "each by its name" says "CUDACXX=$toolkit/bin/nvcc"
check "nvcc is softgpu-cc" exits 0 "$toolkit/bin/nvcc" --version
check "by its name" says softgpu
check "of the version that the folder has" says "V$(sed 's/CUDA Version //' "$toolkit/version.txt")"
check "a C++ program links with the folder" exits 0 g++ "-I$toolkit/include" devices.cpp "-L$toolkit/lib64" -lcudart -o devices
check "and finds the runtime" exits 0 ./devices
check "which has a device" says "devices 1"
if command -v cmake >/dev/null; then
    cat >project/CMakeLists.txt <<'END_CMAKE'
cmake_minimum_required(VERSION 3.18)
project(project LANGUAGES CXX)
find_package(CUDAToolkit REQUIRED)
message("found ${CUDA_CUDART}")
END_CMAKE
    mapfile -t variables < <(python3 -m softgpu env)
    check "CMake finds a toolkit" exits 0 env "${variables[@]}" "PATH=$PWD/other/bin:$PATH" cmake -S project -B project/build
    check "that of the variables, not that of the PATH" says "found $toolkit/lib64/libcudart.so"
fi
mv "$site/softgpu" elsewhere
check "it ends where the folder is gone" exits 127 ./devices
check "with its name" says "stand-in in "
check "a RUNPATH leads to another folder" exits 0 g++ -Ielsewhere/lib/softgpu/toolkit/include devices.cpp -Lelsewhere/lib/softgpu \
    "-Wl,-rpath,$PWD/elsewhere/lib/softgpu" -lcudart -o devices
check "where the runtime is found" exits 0 ./devices
mv elsewhere "$site/softgpu"
check "another word is refused" exits 1 python3 -m softgpu folder

# ---- what it needs of the system ----
needed=$(readelf -d "$site"/softgpu/bin/softgpu-cc "$site"/softgpu/lib/softgpu/*.so.[0-9]* "$site"/softgpu/lib/softgpu/libsoftgpu.so |
    sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p' | grep -vE '^lib(c|m|dl|rt|pthread)\.so|^ld-linux|^lib(softgpu|cuda)' || true)
check "the libraries need libc alone" [ -z "$needed" ]
newest=$(readelf -W --dyn-syms "$site"/softgpu/bin/softgpu-cc "$site"/softgpu/lib/softgpu/*.so.[0-9]* "$site"/softgpu/lib/softgpu/libsoftgpu.so |
    grep -oE 'UND .*@GLIBC_[0-9.]+' | sed 's/.*GLIBC_//' | sort -Vu | tail -n 1)
named=$(sed -E 's/.*manylinux_([0-9]+)_([0-9]+)_.*/\1.\2/' <<<"$wheel")
check "and no newer glibc than the wheel's name says" [ "$(printf '%s\n' "$newest" "$named" | sort -V | tail -n 1)" = "$named" ]

rm -r "$site/nvidia"
check "pip removes it" exits 0 "${pip[@]}" uninstall --yes softgpu
check "and leaves nothing" [ -z "$(find venv -name '*softgpu*')" ]
finish
