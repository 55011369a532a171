#!/bin/bash
# linkers.sh SOFTGPU_CC DDPRUN SOURCES - object files of softgpu-cc's, linked by others: the C and C++ compilers, mpicxx, CMake, with the
# stand-in's folder in the place of CUDA's, or with NVIDIA's libcudart. Each program trains alone, and on two ranks under ddprun, and
# `ddprun doctor` finds nothing wrong. No nvcc is needed: a library with NVIDIA's names plays its runtime. SOURCES: of ddprun.
cc=$(realpath "$1") ddprun=$(realpath "$2") sources=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
softgpu=$(cd "$(dirname "$cc")/../lib/softgpu" && pwd)
limit=300
source "$(dirname "${BASH_SOURCE[0]}")/../../../softgpu/tests/lib.sh"
unset NVCC_CCBIN NVCC_PREPEND_FLAGS LIBRARY_PATH LD_LIBRARY_PATH LD_PRELOAD CUDACXX CUDAARCHS CUDAFLAGS CXXFLAGS LDFLAGS CUDA_PATH MAKEFLAGS "${!DDPRUN_@}"
export NVCC_APPEND_FLAGS="-I$sources/interpose/include" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for tool in cmake make gcc g++; do
    command -v $tool >/dev/null || skip "no $tool"
done
cp "$here"/trainer.cu "$here"/trainer.h "$here"/main.cpp .

# ten steps towards 1 alone, and towards the mean of 1 and 2 on two ranks
alone() {
    run 0 "$@"
    prints "error 0, weight 0.8926"
}
on_two_ranks() { # TIMES COMMAND...: each rank prints that often
    local times=$1
    shift
    run 0 "$ddprun" -n 2 "$@"
    [ "$(grep -c "error 0, weight 1.3389" out)" -eq $((2 * times)) ] || fail "not $times averaged results of each rank"
    says "bitwise identical"
}
doctor_is_content() { # PROGRAM
    timeout -k 1 120 "$ddprun" doctor "$1" >out 2>err </dev/null
    sed -n '/^the program /,$p' out >section
    grep -q '^  ok  ' section || fail "doctor says nothing of $1"
    ! grep -E '^  (problem|warning)' section || fail "doctor is not content with $1"
}
all_is_well() { # PROGRAM
    alone "$1"
    on_two_ranks 1 "$1"
    doctor_is_content "$1"
}

case_ "an object file names nothing of the stand-in's"
run 0 "$cc" -O2 -Xcompiler -fPIC -c trainer.cu
run 0 g++ -fPIE -c main.cpp
nm -u trainer.o >out
! grep softgpu out || fail "it asks for symbols that NVIDIA's libraries do not have"
run 0 readelf -n trainer.o
prints softgpu

case_ "a Makefile that compiles with NVCC and links with CC"
cat >Makefile <<'MAKE'
CUDA_HOME ?= /usr/local/cuda
NVCC = $(CUDA_HOME)/bin/nvcc
LDLIBS = -lcudart -lcublas -lstdc++ -lm
program: main.o made.o
	$(CC) $^ -L$(CUDA_HOME)/lib64 $(LDLIBS) -o $@
made.o: trainer.cu trainer.h
	$(NVCC) -O2 -c $< -o $@
MAKE
run 0 make "CUDA_HOME=$softgpu/toolkit" CC=gcc
all_is_well ./program

case_ "g++ with the static runtime's name, and a position that is fixed"
run 0 g++ main.o trainer.o -L"$softgpu" -lcublas -lcudart_static -lcudadevrt -lrt -ldl -o static_name
alone ./static_name
run 0 g++ -no-pie main.o trainer.o "$softgpu/libcublas.so" "$softgpu/libcudart.so" -o by_path
alone ./by_path
if command -v ld.lld >/dev/null; then
    run 0 g++ -fuse-ld=lld main.o trainer.o -L"$softgpu" -lcublas -lcudart -o by_lld
    alone ./by_lld
fi

case_ "LD_LIBRARY_PATH chooses another stand-in" 3
mkdir elsewhere
cp "$softgpu"/lib*.so.* "$softgpu/libsoftgpu.so" elsewhere/
LD_DEBUG=files LD_LIBRARY_PATH=$work/none:$work/elsewhere run 0 ./static_name
says "calling init: $work/elsewhere/libcudart.so.13"
! grep "calling init: $softgpu" err || fail "two stand-ins in one process"

case_ "a shared library of g++'s, with kernels of the same names as the program's"
run 0 "$cc" -O2 -DTRAINER=second -Xcompiler -fPIC -c trainer.cu -o second.o
run 0 g++ -shared second.o -L"$softgpu" -lcublas -lcudart -o libsecond.so
run 0 g++ -DWITH_SECOND main.cpp trainer.o -L. -lsecond -Wl,-rpath,"$work" -L"$softgpu" -lcublas -lcudart -o linked
alone ./linked
on_two_ranks 2 ./linked
doctor_is_content ./linked

case_ "the same library as a plug-in of a program without CUDA: loaded, unloaded, loaded"
run 0 g++ -DWITH_PLUGIN main.cpp -o host -ldl
alone ./host ./libsecond.so
on_two_ranks 2 --device softgpu ./host ./libsecond.so

case_ "CMake: a C++ program and a CUDA library, linked by the C++ compiler" 3
mkdir project
cp trainer.cu trainer.h main.cpp project/
cat >project/CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.18)
project(small LANGUAGES CXX CUDA)
find_package(CUDAToolkit REQUIRED)
add_library(kernels STATIC trainer.cu)
target_link_libraries(kernels PUBLIC CUDA::cublas)
add_executable(program main.cpp)
set_target_properties(program PROPERTIES LINKER_LANGUAGE CXX)
target_link_libraries(program PRIVATE kernels)
CMAKE
run 0 cmake -S project -B build "-DCMAKE_CUDA_COMPILER=$cc" -DCMAKE_BUILD_TYPE=Release -DCMAKE_SKIP_BUILD_RPATH=ON
run 0 cmake --build build
all_is_well build/program

case_ "mpicxx" 3
if command -v mpicxx >/dev/null && mpicxx -DWITH_MPI -c main.cpp -o with_mpi.o 2>/dev/null; then
    run 0 mpicxx with_mpi.o trainer.o -L"$softgpu" -lcublas -lcudart -o with_mpi
    alone ./with_mpi
    # Each rank is a singleton with a daemon of its own. The daemons of Open MPI 4 make and remove one folder on the host, and a
    # daemon that ends takes it from one that starts: each rank gets a folder of its own.
    on_two_ranks 1 --device softgpu sh -c 'OMPI_MCA_orte_tmpdir_base=$(mktemp -d "$PWD/session.XXXX") exec ./with_mpi'
    doctor_is_content ./with_mpi
else
    echo "not tried: mpicxx and its headers are not here"
fi

case_ "a C++ program without kernels" 3
cat >calls.cpp <<'CPP'
#include <cuda_runtime_api.h>
#include <cstdio>
int main()
{
    int *memory, value = 0;
    if (cudaMalloc((void **)&memory, sizeof(int)) != cudaSuccess || cudaMemset(memory, 1, sizeof(int)) != cudaSuccess)
        return 1;
    cudaMemcpy(&value, memory, sizeof(int), cudaMemcpyDeviceToHost);
    std::printf("value %x\n", (unsigned)value);
}
CPP
run 0 g++ -I"$softgpu/toolkit/include" calls.cpp -L"$softgpu" -lcudart -o calls
run 0 ./calls
prints "value 1010101"
run 0 "$ddprun" -n 1 ./calls
prints "value 1010101"

case_ "a C++ program that compiles a kernel at run time: -lnvrtc -lcuda, with an RPATH"
cat >run_time.cpp <<'CPP'
#include <cstdio>
#include <cuda.h>
#include <nvrtc.h>
#include <vector>
int main()
{
    nvrtcProgram program;
    size_t bytes = 0;
    CUdevice device;
    CUcontext context;
    CUmodule module;
    nvrtcCreateProgram(&program, "extern \"C\" __global__ void f(float *x) { x[threadIdx.x] += 1; }", "f.cu", 0, nullptr, nullptr);
    if (nvrtcCompileProgram(program, 0, nullptr) != NVRTC_SUCCESS || nvrtcGetPTXSize(program, &bytes) != NVRTC_SUCCESS)
        return 1;
    std::vector<char> code(bytes);
    nvrtcGetPTX(program, code.data());
    if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context))
        return 2;
    std::printf("loads %d\n", cuModuleLoadData(&module, code.data()));
}
CPP
run 0 g++ -I"$softgpu/toolkit/include" run_time.cpp -L"$softgpu" -lnvrtc -lcuda -Wl,-rpath,"$softgpu" -o run_time
run 0 ./run_time
prints "loads 0"
run 0 "$ddprun" -n 2 ./run_time
prints "loads 0"

case_ "NVIDIA's shared runtime: under ddprun the stand-in is in its place, alone one line says what to do"
nm -u trainer.o | awk '$2 ~ /^(__)?cuda[A-Z]/ { print "int " $2 "(void) { return 35; }" }' >runtime.c
nm -u trainer.o | awk '$2 ~ /^cublas[A-Z]/ { print "int " $2 "(void) { return 1; }" }' >blas.c
mkdir nvidia
for library in cudart:runtime cublas:blas; do
    soname=lib${library%:*}.so.13
    echo "$soname { global: *; };" >versions
    run 0 gcc -shared -fPIC -w -fno-builtin -Wl,-soname,$soname -Wl,--version-script=versions "${library#*:}.c" -o nvidia/$soname
    ln -s $soname "nvidia/lib${library%:*}.so"
done
run 0 g++ main.o trainer.o -Lnvidia -lcudart -lcublas -Wl,--enable-new-dtags,-rpath,"$work/nvidia" -o for_nvidia
on_two_ranks 1 ./for_nvidia
doctor_is_content ./for_nvidia
alone env LD_LIBRARY_PATH="$softgpu" ./for_nvidia
run 127 ./for_nvidia
says "softgpu: ./for_nvidia was compiled by softgpu-cc for the CPU, but its CUDA runtime is NVIDIA's, $work/nvidia/libcudart.so.13; start it with ddprun"
[ "$(wc -l <err)" -eq 1 ] && [ ! -s out ] || fail "more than one line"

case_ "NVIDIA's static runtime is refused by name"
run 0 gcc -w -fno-builtin -c runtime.c -o runtime.o
run 0 ar rcs nvidia/libcudart_static.a runtime.o
run 0 g++ main.o trainer.o -Lnvidia -lcudart_static -lcublas -Wl,-rpath,"$work/nvidia" -o with_static
run 127 ./with_static
says "libcudart_static.a is linked into it"

case_ "a library of the driver's that is named and not used" 3
run 0 "$cc" main.o trainer.o -lcublas -lnvidia-ml -o names_nvml
alone ./names_nvml
run 0 g++ main.o trainer.o -L"$softgpu" -lcublas -lcudart -lnvidia-ml -o names_nvml
echo 'extern "C" int nvmlInit_v2(void); int main() { return nvmlInit_v2(); }' >uses_nvml.cpp
run 1 "$cc" uses_nvml.cpp -lnvidia-ml -o uses_nvml
says nvmlInit_v2

finish "$cases cases"
