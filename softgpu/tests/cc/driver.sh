#!/bin/bash
# driver.sh SOFTGPU_CC [FLAG...] - softgpu-cc as a command: options, outputs, exit codes, where errors point, and that nothing is left
# behind. Each case_ states a property. Needs softgpu-cc and the stand-in's runtime built; FLAGs are added to every command line
# (in sanitizer builds, whose runtime must be in every program).
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
cc=$1
flags=${*:2}
export TMPDIR=$work/tmp
mkdir "$TMPDIR"
unset NVCC_CCBIN NVCC_PREPEND_FLAGS
export NVCC_APPEND_FLAGS=$flags

cat >hello.cu <<'END'
#include <cstdio>
#include "value.h"
#ifndef __CUDACC__
#error "CUDA source sees __CUDACC__"
#endif
__global__ void set(int *x) { *x = VALUE; }
int main()
{
    int *x, y = 0;
    cudaMalloc(&x, sizeof(int));
    set<<<1, 1>>>(x);
    cudaMemcpy(&y, x, sizeof(int), cudaMemcpyDeviceToHost);
    std::printf("value %d\n", y);
    return cudaGetLastError() != cudaSuccess;
}
END
mkdir include
echo '#define VALUE 42' >include/value.h
echo 'int main(void) { return 0; }' >main.c

case_ "a program in one step"
run 0 "$cc" -Iinclude hello.cu -o hello
run 0 ./hello
prints "value 42"

case_ "-static-global-template-stub=false: another file launches an instance" 3
printf 'template <class T> __global__ void k(T *p) { *p = 7; }\ntemplate __global__ void k<int>(int *);\n' >instance.cu
printf 'template <class T> __global__ void k(T *p);\nint main() { int *p; cudaMallocManaged(&p, 4); k<<<1, 1>>>(p); cudaDeviceSynchronize(); return *p != 7; }\n' >launches.cu
run 0 "$cc" -static-global-template-stub=false instance.cu launches.cu -o shared_template
run 0 ./shared_template
run 1 "$cc" instance.cu launches.cu -o shared_template

case_ "errors of the host compiler point to the user's line" 3
printf '#include <cstdio>\n__global__ void k(int *x)\n{\n    __shared__ int s[4],\n        t;\n    x[0] = undeclared_name;\n}\nvoid f(int *x)\n{\n    k<<<1,\n        1>>>(x, 2);\n}\n' >wrong.cu
run 1 "$cc" -c wrong.cu
says "wrong.cu:6:"
says "undeclared_name"
grep -qE 'wrong.cu:1[01]:' err || fail "the wrong launch is not at line 10 or 11"

case_ "errors in included files point there" 3
printf '\n\n__device__ int broken() { return nothing_here; }\n' >include/broken.h
printf '#include "broken.h"\n' >uses.cu
run 1 "$cc" -Iinclude -c uses.cu
says "include/broken.h:3:"

case_ "command lines that cannot be honoured end with 2 and say what is wrong"
while IFS='|' read -r arguments words; do # two columns: the arguments, and words of the message
    read -ra command <<<"$arguments"
    run 2 "$cc" "${command[@]}"
    says "$words"
done <<'END'
|no input files
--no-such-option hello.cu|unknown option '--no-such-option'
-fPIC hello.cu|-Xcompiler -fPIC
-Wl,-z,now hello.cu|-Xlinker
-c hello.cu main.c -o both.o|one output for 2 inputs
missing.cu|missing.cu
-Ofast hello.cu|-Ofast
-std=c++98 hello.cu|-std=c++98
-optix-ir hello.cu|-optix-ir
-ptx hello.cu main.c|-ptx takes one input
-cubin -c hello.cu|-cubin takes one input
END
NVCC_APPEND_FLAGS="" run 2 "$cc" -o
says "needs a value"
run 127 "$cc" -ccbin /no/such/compiler -c main.c
says "/no/such/compiler"

case_ "a library that the stand-in lacks links; a call of it is named by the link, or returns NOT_SUPPORTED and is named once" 3
run 0 "$cc" hello.cu -Iinclude -lcufft -lcusparse -lcusolver -lcudnn -o hello
run 0 ./hello
printf 'extern "C" int cudnnCreate(void **);\nint main() { void *p; return cudnnCreate(&p); }\n' >handle.cu
run 1 "$cc" handle.cu -lcudnn -o never
says "cudnnCreate: the stand-in has no -lcudnn"
[ ! -e never ] || fail "it made something"
cat >stubs.cu <<'END'
#include <cufft.h>
#include <cusolverDn.h>
#include <cusparse.h>
int main()
{
    cufftHandle p;
    cusparseHandle_t s;
    cusolverDnHandle_t d;
    return cufftPlan1d(&p, 1, CUFFT_C2C, 3) == CUFFT_NOT_SUPPORTED and cufftPlan1d(&p, 1, CUFFT_C2C, 3) == CUFFT_NOT_SUPPORTED
           and cusparseCreate(&s) == CUSPARSE_STATUS_NOT_SUPPORTED and cusolverDnCreate(&d) == CUSOLVER_STATUS_NOT_SUPPORTED ? 0 : 1;
}
END
run 0 "$cc" stubs.cu -lcufft -lcusparse -lcusolver -o stubs
run 0 ./stubs
says "softgpu: cufftPlan1d returns CUFFT_NOT_SUPPORTED: the stand-in has no cuFFT"
says "softgpu: cusolverDnCreate returns CUSOLVER_STATUS_NOT_SUPPORTED: the stand-in has no cuSOLVER"
[ "$(wc -l <err)" -eq 3 ] || fail "not one line for each function"

case_ "SOFTGPU_RACES=1 and SOFTGPU_UNRULY: changes that nothing orders are named once, with line and lanes; ordered ones are not" 3
cat >right.cu <<'END'
#include <cooperative_groups.h>
__device__ int lock_word, ticket;
__device__ void twice(int *p) { *p += *p; ++p[0]; }
__global__ void locked(int *a)
{
    for (bool done = false; !done;)
        if (atomicCAS(&lock_word, 0, 1) == 0) {
            a[0] += 1;
            __threadfence();
            atomicExch(&lock_word, 0);
            done = true;
        }
}
__global__ void own(int *a)
{
    int mine[4] = {0}, *p = a + blockIdx.x * blockDim.x + threadIdx.x, n = 0;
    for (int i = 0; i < 8; ++i) {
        mine[i % 4] += i;
        *p += mine[i % 4];
        twice(p);
        for (int v : mine) n += v;
    }
    atomicAdd(&a[1000], n);
    a[1001] |= 1;
    a[1002] += 0;
}
__global__ void tree(int *a)
{
    __shared__ int s[64];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    for (int n = 32; n > 0; n /= 2) {
        if (threadIdx.x < n) s[threadIdx.x] += s[threadIdx.x + n];
        __syncthreads();
    }
    for (int i = 0; i < 64; ++i) {
        if (threadIdx.x == i and blockIdx.x == 0) a[i % 2] += i;
        __syncthreads();
    }
}
__global__ void lanes(int *a)
{
    for (int i = 0; i < 32; ++i) {
        if (threadIdx.x == i) a[2] += i;
        cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block()).sync();
    }
}
__global__ void shared_once()
{
    __shared__ int n[1];
    if (threadIdx.x == 0) n[0] += 1;
}
__global__ void last(int *a)
{
    if (atomicAdd(&ticket, 1) == gridDim.x * blockDim.x - 1) a[0] += 1;
}
int main()
{
    int *a;
    cudaMallocManaged(&a, 8192);
    locked<<<4, 64>>>(a);
    own<<<2, 64>>>(a);
    own<<<2, 64>>>(a);
    tree<<<2, 64>>>(a);
    lanes<<<1, 32>>>(a);
    shared_once<<<4, 32>>>();
    last<<<2, 64>>>(a);
    return cudaDeviceSynchronize();
}
END
cat >wrong.cu <<'END'
__global__ void rows(float *a, float s) { a[threadIdx.y] += s; }
__global__ void blocks(int *a)
{
    if (threadIdx.x == 0) ++a[64];
}
template <class T> __global__ void warps(T *a)
{
    a[65] = a[65] + 1;
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        a[66] *= 2;
}
int main()
{
    float *a;
    cudaMallocManaged(&a, 4096);
    for (int i = 0; i < 128; ++i) a[i] = 1;
    rows<<<1, dim3(16, 16)>>>(a, 1.f);
    rows<<<1, dim3(16, 16)>>>(a, 1.f);
    blocks<<<2, 64>>>((int *)a);
    warps<<<1, 64>>>(a);
    return cudaDeviceSynchronize();
}
END
run 0 env SOFTGPU_RACES=1 "$cc" -Xcompiler -Wall,-Werror right.cu -o right
run 0 ./right
[ ! -s err ] || fail "changes in an order are named"
run 0 env SOFTGPU_UNRULY=3 "$cc" wrong.cu -o wrong
run 0 ./wrong
says "softgpu: kernel rows: wrong.cu:1: block (0,0,0), thread (0,0,0) and block (0,0,0), thread (1,0,0) change 0x"
says "kernel blocks: wrong.cu:4: block (0,0,0), thread (0,0,0) and block (1,0,0), thread (0,0,0) change"
says "kernel warps<float>: wrong.cu:8: block"
says "kernel warps<float>: wrong.cu:11: block"
says "lanes of one warp"
says "threads of two warps"
[ "$(grep -c 'nothing orders them' err)" -eq 4 ] || fail "not one line for each place"
run 0 env SOFTGPU_RACES=0 "$cc" wrong.cu -o wrong
run 0 ./wrong
[ ! -s err ] || fail "reported unasked"

case_ "the host compiler's warnings are about the host's code, not about device code and the stand-in's headers" 3
cat >device.cu <<'END'
#pragma nv_diag_suppress 177
__device__ int counter;
__global__ void k(int n, unsigned m, const float *__restrict__ x, float *y)
{
    int unused, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < m) y[i] = 0.5 * x[i] + NAN;
    { int i = int(x[0]); counter = i; }
}
int main() { float *x; cudaMalloc(&x, 64); k<<<1, 1>>>(1, 1u, x, x); return cudaDeviceSynchronize() != cudaSuccess; }
END
warnings=-Xcompiler=-Wall,-Wextra,-Wcast-qual,-Wshadow,-Wconversion
run 0 "$cc" "$warnings" -Xcompiler -Werror device.cu -o device
run 0 ./device
printf 'void host() { int unused; }\n' >>device.cu
run 1 "$cc" "$warnings,-Werror" -c device.cu -o never
says "device.cu:10:"
says "unused variable"

case_ "static cudart is accepted with a word on it" 3
run 0 "$cc" -cudart static -Iinclude hello.cu -o hello
says "shared library"
run 0 "$cc" -Iinclude hello.cu -lcudart_static -lcudadevrt -o hello

case_ "--allow-removed supplies calls of old CUDA to C and C++ too" 3
echo '#include <cuda_runtime.h>
int main() { return cudaThreadSynchronize(); }' >old.cpp
run 1 "$cc" old.cpp -o old
run 0 "$cc" --allow-removed old.cpp -o old
run 0 ./old

case_ "version and help"
run 0 "$cc" --version
prints "softgpu-cc"
grep -qE 'release 13\.0, V13\.0\.[0-9]+' out || fail "no release that build systems find"
run 0 "$cc" --help
prints "--use_fast_math"

case_ "make rules"
run 0 "$cc" -MD -Iinclude -c hello.cu -o hello.o
grep -q 'hello.o:' hello.d && grep -q 'include/value.h' hello.d || fail "hello.d"
run 0 "$cc" -MMD -MF other.dep -MT target -MP -Iinclude -c hello.cu -o hello.o
grep -q '^target:' other.dep && grep -q '^include/value.h:' other.dep || fail "other.dep"
if grep -q stdio other.dep; then fail "-MMD names system headers"; fi
run 0 "$cc" -M -Iinclude hello.cu
prints "include/value.h"
run 0 "$cc" -E -Iinclude hello.cu
prints "*x = 42;"

case_ "dry run shows commands and runs none"
rm -f hello.o
run 0 "$cc" --dry-run -Iinclude -c hello.cu -o hello.o
says "#$ g++"
says "c++-cpp-output"
[ ! -e hello.o ] || fail "it made hello.o"

case_ "keep keeps"
mkdir kept
run 0 "$cc" --keep --keep-dir kept -Iinclude -c hello.cu
[ -s kept/hello.1.ii ] && [ -s kept/hello.2.ii ] || fail "kept: $(ls kept)"

case_ "-x cu, several inputs of one name, names with blanks" 3
mkdir -p d1 "d 2"
echo 'int one() { return 1; } __global__ void k1() {}' >d1/same.txt
echo 'int one(); __global__ void k2() {} int main() { k2<<<1, 1>>>(); return one() - 1; }' >"d 2/same.txt"
run 0 "$cc" -x cu d1/same.txt "d 2/same.txt" -o same
run 0 ./same

case_ "options from the environment" 3
NVCC_APPEND_FLAGS="$flags -Iinclude -o fromenv" run 0 "$cc" hello.cu
run 0 ./fromenv

case_ "the host compiler can be chosen"
cat >mygxx <<'END'
#!/bin/sh
echo used >>"$(dirname "$0")/used.log"
exec g++ "$@"
END
chmod +x mygxx
run 0 "$cc" -ccbin ./mygxx -Iinclude hello.cu -o hello
[ "$(wc -l <used.log)" -ge 3 ] || fail "-ccbin not used for all steps"
rm used.log
NVCC_CCBIN=./mygxx run 0 "$cc" -Iinclude hello.cu -o hello
[ -s used.log ] || fail 'NVCC_CCBIN not used'

case_ "per-thread default stream" 3
cat >streams.cu <<'END'
#ifndef CUDA_API_PER_THREAD_DEFAULT_STREAM
#error "not defined"
#endif
__global__ void k() {}
int main() { k<<<1, 1>>>(); return cudaDeviceSynchronize() != cudaSuccess; }
END
run 0 "$cc" --default-stream per-thread streams.cu -c
run 0 nm -u streams.o
prints "cudaLaunchKernel_ptsz"

case_ "an interrupted compilation leaves nothing behind and dies of its signal"
cat >slow <<'END'
#!/bin/sh
: >"$STARTED"
exec sleep 60
END
chmod +x slow
for signal in INT TERM; do
    rm -f started
    # A shell ignores SIGINT for what it starts in the background; perl does not.
    STARTED=$work/started perl -e '$SIG{INT} = "DEFAULT"; exec @ARGV' "$cc" -ccbin "$work/slow" -Iinclude -c hello.cu >out 2>err </dev/null &
    pid=$!
    within 10 test -e started || fail "never started"
    kill -$signal $pid
    wait $pid
    status=$?
    [ $status -eq $((128 + $(kill -l $signal))) ] || fail "SIG$signal: exit $status"
    [ -z "$(ls -A "$TMPDIR")" ] || fail "SIG$signal left $(ls "$TMPDIR")"
done

finish "$cases cases"
