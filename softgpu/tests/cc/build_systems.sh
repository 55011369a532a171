#!/bin/bash
# build_systems.sh SOFTGPU_CC - softgpu-cc in nvcc's place in builds as projects have them: CMake's CUDA language, Makefiles, configure
# scripts, Ninja, response files, relocatable device code, plug-ins. Each case_ states a property. No nvcc is on the PATH.
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
cc=$1
toolkit=$(dirname "$cc")/../lib/softgpu/toolkit
limit=300
unset NVCC_CCBIN NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS LIBRARY_PATH LD_LIBRARY_PATH CUDACXX CUDAARCHS CXXFLAGS LDFLAGS CUDA_PATH MAKEFLAGS
for tool in cmake ninja make; do
    command -v $tool >/dev/null || skip "no $tool"
done
mkdir path
for folder in ${PATH//:/ }; do
    for tool in "$folder"/*; do
        [ "$(basename "$tool")" = nvcc ] || [ ! -x "$tool" ] || [ -e "path/$(basename "$tool")" ] || ln -s "$tool" path/
    done
done
export PATH=$work/path

# ---- one project for all: a library with kernels, programs in C++ and CUDA ----
mkdir "a project"
cat >"a project/kernels.h" <<'END'
#define FACTOR 2
int scaled(int x);
END
cat >"a project/kernels.cu" <<'END'
#include "kernels.h"
__global__ void scale(int *x) { *x *= FACTOR; }
int scaled(int x)
{
    int *d;
    if (cudaMalloc(&d, sizeof(x)) != cudaSuccess)
        return -1;
    cudaMemcpy(d, &x, sizeof(x), cudaMemcpyHostToDevice);
    scale<<<1, 1>>>(d);
    cudaMemcpy(&x, d, sizeof(x), cudaMemcpyDeviceToHost);
    cudaFree(d);
    return x;
}
END
cat >"a project/main.cpp" <<'END'
#include "kernels.h"
#include <cstdio>
int main() { std::printf("scaled %d\n", scaled(21)); }
END
cat >"a project/helper.cu" <<'END'
__device__ int offset = 5;
__device__ int add(int a, int b) { return a + b; }
END
cat >"a project/direct.cu" <<'END'
#include "kernels.h"
#include <cstdio>
#ifdef WITH_HELPER
extern __device__ int offset;
extern __device__ int add(int, int);
__global__ void use(int *x) { *x = add(*x, offset); }
#else
__global__ void use(int *x) { *x += 5; }
#endif
int main()
{
    int *d, x = scaled(10);
    cudaMalloc(&d, sizeof(x));
    cudaMemcpy(d, &x, sizeof(x), cudaMemcpyHostToDevice);
    use<<<1, 1>>>(d);
    cudaMemcpy(&x, d, sizeof(x), cudaMemcpyDeviceToHost);
    std::printf("direct %d\n", x);
}
END
cat >"a project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.18)
project(small LANGUAGES CXX CUDA)
set(CMAKE_CUDA_STANDARD 17)
option(RDC "separable compilation" OFF)
add_library(kernels ${KIND} kernels.cu)
target_compile_options(kernels PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -lineinfo --use_fast_math>)
add_executable(direct direct.cu)
if(RDC)
    target_sources(direct PRIVATE helper.cu)
    target_compile_definitions(direct PRIVATE WITH_HELPER)
endif()
set_target_properties(direct PROPERTIES CUDA_SEPARABLE_COMPILATION ${RDC})
if(KIND STREQUAL STATIC)
    set_target_properties(kernels PROPERTIES CUDA_SEPARABLE_COMPILATION ${RDC})
endif()
target_link_libraries(direct PRIVATE kernels)
add_executable(program main.cpp)
find_package(CUDAToolkit REQUIRED)
target_link_libraries(program PRIVATE kernels CUDA::cudart CUDA::cublas)
END

cmake_build() { # FOLDER ARGUMENT...
    run 0 cmake -S "a project" -B "$@"
    lacks "Warning"
    run 0 cmake --build "$1"
}

case_ "CMake takes softgpu-cc for its CUDA compiler; programs of CUDA and of C++ sources run"
cmake_build "b 1" -G Ninja -DKIND=STATIC "-DCMAKE_CUDA_COMPILER=$cc"
run 0 "b 1/direct"
prints "direct 25"
run 0 "b 1/program"
prints "scaled 42"

case_ "a header that changes is seen"
sed -i 's/FACTOR 2/FACTOR 3/' "a project/kernels.h"
run 0 cmake --build "b 1"
run 0 "b 1/program"
prints "scaled 63"
run 0 cmake --build "b 1"
prints "no work to do"
sed -i 's/FACTOR 3/FACTOR 2/' "a project/kernels.h"

export CMAKE_NINJA_FORCE_RESPONSE_FILE=1
case_ "shared libraries, with make"
cmake_build "b 2" -G "Unix Makefiles" -DKIND=SHARED "-DCMAKE_CUDA_COMPILER=$cc" -DCMAKE_BUILD_TYPE=Debug
run 0 "b 2/direct"
prints "direct 25"
run 0 "b 2/program"
prints "scaled 42"

case_ "by the toolchain file, C++ programs without CUDA:: libraries: separable compilation, chosen architectures, a build type, response files"
sed -i 's/ CUDA::cudart CUDA::cublas//' "a project/CMakeLists.txt"
cmake_build "b 3" -G Ninja -DKIND=STATIC -DRDC=ON "-DCMAKE_TOOLCHAIN_FILE=$toolkit/softgpu.cmake" "-DCMAKE_CUDA_ARCHITECTURES=80;90-real" \
    -DCMAKE_BUILD_TYPE=Release
run 0 "b 3/program"
prints "scaled 42"
run 0 "b 3/direct"
prints "direct 25"

# ---- Makefiles ----
case_ "a Makefile with everything on one line, objects of three languages, -L of a toolkit that is not there"
mkdir -p made/src
cp "a project/kernels.cu" "a project/kernels.h" made/src
echo 'int scaled(int x); int from_c(void); int main() { return scaled(from_c()) == 8 ? 0 : 1; }' >made/src/main.cpp
echo 'int from_c(void) { return 4; }' >made/src/part.c
sed -i '1s/^/extern "C" int from_c(void); /; s/int from_c(void); int main/int main/' made/src/main.cpp
cat >made/Makefile <<'END'
ARCH= -gencode arch=compute_60,code=sm_60 \
      -gencode arch=compute_70,code=[sm_70,compute_70]
NVCC=nvcc
CFLAGS=-Wall -Wno-unused-result -Wno-unknown-pragmas -fPIC
CFLAGS+=-Ofast
trainer: main.o part.o kernels.o
	$(NVCC) -Isrc/ $(ARCH) --compiler-options "$(CFLAGS)" $^ -o $@ -lm -L/usr/local/no-such-cuda/lib64 -lcudart -lcublas
%.o: src/%.cpp
	g++ -Isrc/ $(CFLAGS) -c $< -o $@
%.o: src/%.c
	gcc -Isrc/ $(CFLAGS) -c $< -o $@
%.o: src/%.cu
	$(NVCC) $(ARCH) -Isrc/ -I/usr/local/no-such-cuda/include/ --compiler-options "$(CFLAGS)" -c $< -o $@
END
run 0 make -C made "NVCC=$cc"
run 0 made/trainer

# ---- response files ----
case_ "arguments from files, one within another, with blanks and quotes"
mkdir "in clude"
echo '#define NAME "a name"' >"in clude/name.h"
printf '#include <cstring>\n#include "name.h"\nint main() { return std::strcmp(NAME, OTHER) != 0; }\n' >names.cu
printf -- '-I"in clude"\n"-DOTHER=\\"a name\\""\n' >inner.rsp
echo '--options-file inner.rsp names.cu' >outer.rsp
run 0 "$cc" -optf outer.rsp -o "na mes"
run 0 "./na mes"

# ---- relocatable device code ----
case_ "functions, variables, constants and pointers of other files, some of them in an archive"
mkdir rdc
cat >rdc/shared.h <<'END'
struct entry { float weight; int count; };
extern __device__ entry table[4];
extern __constant__ int limits[2];
extern __device__ int (*operation)(int, int);
__device__ int apply(int a, int b);
__global__ void from_library(int *out);
END
cat >rdc/table.cu <<'END'
#include "shared.h"
__device__ entry table[4] = {{1.5f, 1}, {2.5f, 2}, {3.5f, 3}, {4.5f, 4}};
__constant__ int limits[2];
static __device__ int multiply(int a, int b) { return a * b; }
__device__ int (*operation)(int, int) = multiply;
END
cat >rdc/apply.cu <<'END'
#include "shared.h"
static __device__ int clamp(int x) { return x < limits[0] ? limits[0] : x > limits[1] ? limits[1] : x; }
__device__ int apply(int a, int b) { return clamp(operation(a, b)); }
__global__ void from_library(int *out) { out[threadIdx.x] = apply(table[threadIdx.x].count, 10); }
END
cat >rdc/main.cu <<'END'
#include "shared.h"
#include <cstdio>
static __device__ int clamp(int x) { return x + 1; }
__global__ void here(int *out) { out[threadIdx.x] += clamp((int)table[threadIdx.x].weight); }
int main()
{
    int *out, got[4], low_high[2] = {15, 35};
    cudaMemcpyToSymbol(limits, low_high, sizeof(low_high));
    entry changed = {7.5f, 3};
    cudaMemcpyToSymbol(table, &changed, sizeof(changed), 2 * sizeof(entry));
    cudaMalloc(&out, sizeof(got));
    from_library<<<1, 4>>>(out);
    here<<<1, 4>>>(out);
    cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost);
    std::printf("%d %d %d %d\n", got[0], got[1], got[2], got[3]);
}
END
run 0 "$cc" -dc rdc/table.cu -o rdc/table.o
run 0 "$cc" -rdc=true -c rdc/apply.cu -o rdc/apply.o
run 0 "$cc" -dc rdc/main.cu -o rdc/main.o
run 0 "$cc" -lib rdc/table.o rdc/apply.o -o rdc/libparts.a
run 0 "$cc" -dlink rdc/main.o rdc/libparts.a -o rdc/linked.o
run 0 "$cc" rdc/main.o rdc/linked.o -Lrdc -lparts -o rdc/program
run 0 rdc/program
prints "17 23 38 40"

# ---- plug-ins ----
case_ "libraries with kernels and variables of the same names, loaded and unloaded by dlopen"
for number in 1 2; do
    cat >plugin$number.cu <<END
__device__ int base = $number;
__constant__ int step;
__global__ void fill(int *x) { x[threadIdx.x] = base * 100 + step * (int)threadIdx.x; }
extern "C" int plugin(int *got)
{
    int *x, by = $number + 1;
    if (cudaMalloc(&x, 4 * sizeof(int)) != cudaSuccess)
        return 1;
    cudaMemcpyToSymbol(step, &by, sizeof(by));
    fill<<<1, 4>>>(x);
    const int status = cudaMemcpy(got, x, 4 * sizeof(int), cudaMemcpyDeviceToHost);
    cudaFree(x);
    return status;
}
END
    run 0 "$cc" -shared -Xcompiler -fPIC plugin$number.cu -o plugin$number.so
done
cat >loader.c <<'END'
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    (void)argv;
    for (int i = 0; i < 4; ++i) {
        char name[32];
        snprintf(name, sizeof(name), "./plugin%d.so", 1 + i % 2);
        void *library = dlopen(name, i < 2 ? RTLD_NOW | RTLD_GLOBAL : RTLD_LAZY);
        int (*plugin)(int *) = library != NULL ? (int (*)(int *))dlsym(library, "plugin") : NULL;
        int got[4];
        if (plugin == NULL || plugin(got) != 0) {
            fprintf(stderr, "%s: %s\n", name, dlerror());
            return 1;
        }
        printf("%d-%d ", got[0], got[3]);
        if (argc > 1 || i >= 2)
            dlclose(library);
    }
    return 0;
}
END
run 0 gcc -o loader loader.c -ldl
for argument in "" close; do
    run 0 ./loader $argument
    prints "100-106 200-209 100-106 200-209"
done

finish "$cases cases"
