#!/bin/bash
# command_lines.sh SOFTGPU_CC [FLAG...] - command lines that nvcc takes: each compiles and links with softgpu-cc, and what it makes
# runs. driver.sh has the rest: what each option does, outputs, exit codes. Where nvcc is found, its own parser (--dryrun) must take
# each line too; with COMMAND_LINES_NVCC=1 nvcc does what the line says, which takes minutes.
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
cc=$1
export TMPDIR=$work/tmp
mkdir "$TMPDIR"
unset NVCC_CCBIN NVCC_PREPEND_FLAGS
export NVCC_APPEND_FLAGS=${*:2}
lines=0
real=$(type -P nvcc) || real=
[ -n "$real" ] && grep -q softgpu <("$real" --version) && real= # the stand-in's, for build systems

# with COMPILER [OPTION...] LINE: runs LINE, in which `nvcc` is that.
with() {
    local compiler=("${@:1:$#-1}")
    nvcc() { "${compiler[@]}" "$@"; }
    (eval "set -e; ${*: -1}") >out 2>&1 </dev/null
}

# line TEXT [PROGRAM]: TEXT must end with 0, and so must PROGRAM then.
line() {
    lines=$((lines + 1))
    [ $# -eq 1 ] || in_turn 3 || return 0 # what has no program makes pieces
    with "$cc" "$1" || fail "exit $?: $1"
    leaves_nothing "$1"
    [ $# -eq 1 ] || timeout -k 1 60 "./$2" >out 2>&1 </dev/null || fail "$2 ended with $?: $1"
    if [ -n "$real" ]; then
        if [ "${COMMAND_LINES_NVCC:-}" = 1 ]; then
            # Some toolkits lack the library that links -dlto.
            (cd real && { with "$real" "$1" || grep -q 'elfLink linker library load error' out; }) ||
                { mv real/out out && fail "nvcc ended with an error: $1"; }
        else
            with "$real" --dryrun "$1" || fail "nvcc's parser ended with $?: $1"
        fi
    fi
}

# ---- the sources ----
mkdir include objs
cat >one.cu <<'END_OF_SOURCE'
#ifndef VALUE
#define VALUE 7
#endif
__global__ void set(int *x) { *x = VALUE; }
int main()
{
    int *x, y = 0;
    if (cudaMalloc(&x, sizeof(int)) != cudaSuccess)
        return 0; /* by nvcc, without a GPU */
    set<<<1, 1>>>(x);
    cudaMemcpy(&y, x, sizeof(int), cudaMemcpyDeviceToHost);
    return y != VALUE;
}
END_OF_SOURCE
sed 's/int main()/extern "C" int from_cu(void)/; s/return y.*/return y;/; s/return 0;/return 7;/' one.cu >part.cu
cp one.cu one.txt
echo '#include <cuda_runtime.h>
extern "C" int from_cpp(void) { return sizeof(dim3) == 12 ? 8 : 0; }' >part.cpp
echo 'int from_cu(void); int from_cpp(void); int main(void) { return from_cu() != 7 || from_cpp() != 8; }' >main.c
echo 'int a(void); int b(int x) { return x > 2 ? x : a() + x; }' >b.c
echo 'int b(int); int a(void) { return b(3); }' >a.c
echo 'int a(void); int b(int); int main(void) { return a() + b(2) != 8; }' >cycle.c
echo '#include <string.h>
int main(void) { return strcmp(NAME, "a, b") != 0 || sizeof((int[]){LIST}) != 2 * sizeof(int) || A + B != 3; }' >names.c
echo '#include <cmath>
int main(int argc, char **argv) { int n = 0;
#pragma omp parallel for reduction(+ : n)
for (int i = 0; i < 10; ++i) n += i;
return n != 45 || std::sqrt(argc * 1.0f) != 1 + (argc == 4) || argv[argc]; }' >threads.cpp
echo 'int registered; __attribute__((constructor)) static void r(void) { registered = 1; }' >register.c
echo '__attribute__((weak)) extern int registered; int main(void) { return !&registered; }' >registry.c
cat >lambda.cu <<'END_OF_SOURCE'
constexpr int three() { return 3; }
template <class F> __global__ void each(int *x, F f) { x[threadIdx.x] = f(threadIdx.x); }
int main()
{
    int *x, y[2] = {};
    if (cudaMalloc(&x, sizeof(y)) != cudaSuccess)
        return 0;
    each << <1, 2 >> >(x, [=] __device__(int i) { return i + three(); });
    cudaMemcpy(y, x, sizeof(y), cudaMemcpyDeviceToHost);
    return y[0] != 3 || y[1] != 4;
}
END_OF_SOURCE
echo '__device__ int by = 1; __device__ int other(int x) { return x + by; }' >rdc_b.cu
sed 's/^__global__/extern __device__ int by, other(int); __global__/; s/ = VALUE;/ = other(VALUE - by);/' one.cu >rdc_a.cu
printf '%s\n' '-O3' '-DVALUE=5 -I include' '-Xcompiler "-Wall -Wextra"' >options.txt
echo '#define VALUE 9' >include/value.h
echo '#include <value.h>' | cat - one.cu >includes.cu

# What nvcc makes must not meet what softgpu-cc makes.
mkdir "$work-real" && cp -r . "$work-real" && mv "$work-real" real

# ---- pieces: objects, archives, a shared library ----
line 'nvcc -c -O3 -arch=sm_80 one.cu'
line 'nvcc one.o -o p01' p01
line 'nvcc -c part.cu -odir objs -Xcompiler -fPIC'
line 'nvcc -o objs/cpp.o -c part.cpp --compiler-options -fPIC,-O1'
line 'nvcc -lib objs/part.o objs/cpp.o -o libparts.a'
line 'nvcc --shared objs/part.o objs/cpp.o -o libshared_parts.so'
line 'nvcc --lib -arbin ar a.c -o liba.a && nvcc -lib b.c --output-file libb.a && nvcc -lib register.c -o libreg.a'

# ---- the order of sources and libraries ----
line 'nvcc -lm -lpthread one.o -o p02' p02
line 'nvcc -L. -lparts main.c -o p03' p03
line 'nvcc -o p04 libparts.a main.c' p04
line 'nvcc -L . -l parts,m main.c -o p05' p05
line 'nvcc -l:libparts.a -L. -o p06 main.c' p06
line 'nvcc -L. -la -lb cycle.c -o p07 && nvcc libb.a liba.a cycle.c -o p07' p07
line "nvcc -Xlinker -rpath -Xlinker '$work' -L. -lshared_parts main.c -o p08" p08
for file in p08 libshared_parts.so; do # the note that says what they are for
    [ ! -e $file ] || readelf -n $file | grep -c softgpu >out || fail "$file has no note"
done
line "nvcc main.c -Xlinker=-rpath=$work,-z,now --library-path=. --library=shared_parts -o p09" p09
line 'nvcc registry.c -Xlinker --whole-archive -Xlinker libreg.a -Xlinker --no-whole-archive -o p10' p10
line 'nvcc -cudart shared -lcudart -lcuda -lcublas -lcublasLt -lcurand one.o -o p11' p11
line 'nvcc -c part.cu main.c && nvcc main.o part.o part.cpp -o p36' p36
line 'nvcc --cudart=none one.o -o p12 -lcudart -lrt -ldl' p12

# ---- GPUs, code, speed ----
line 'nvcc -t=0 --threads 0 --use_fast_math -std=c++17 -O3 one.cu -lcublas -lcublasLt -o p13' p13
line 'nvcc -gencode arch=compute_80,code=[sm_80,compute_80] -gencode=arch=compute_90,code=\"sm_90,compute_90\" one.cu -o p14' p14
line 'nvcc --gpu-architecture compute_80 --gpu-code sm_80,compute_80 -t4 -O4 -m 64 one.cu -o p15' p15
line 'nvcc -arch=all-major --fmad=false -ftz=true -prec-div=false -prec-sqrt false -lineinfo -restrict one.cu -o p16' p16
line 'nvcc -arch sm_80 -Xptxas=-v,-O3 -Xptxas -dlcm=ca -maxrregcount=32 -Xcudafe --diag_suppress=unrecognized_gcc_pragma -Xnvlink -w -m64 -Wno-deprecated-gpu-targets one.cu -o p17' p17
line 'nvcc -std c++20 -arch=sm_90 -diag-suppress 177,550 -expt-relaxed-constexpr -extended-lambda lambda.cu -o p18' p18
line 'nvcc -std=c++14 --expt-relaxed-constexpr --expt-extended-lambda -no-compress -compress-mode=size lambda.cu -o p19' p19
line 'nvcc -dlto -rdc=true -arch=sm_80 rdc_a.cu rdc_b.cu -o p20' p20
line 'nvcc -dc rdc_a.cu rdc_b.cu && nvcc -rdc=true -dlink rdc_a.o rdc_b.o -o link.o && nvcc -rdc true rdc_a.o rdc_b.o link.o -o p37' p37
line 'nvcc -G -g -pg -keep -keep-dir objs one.cu -o p21' p21

# ---- the host compiler ----
line 'nvcc -Xcompiler "-Wall -Wextra" -Xcompiler=-fno-inline,-O1 --compiler-options="-g" one.cu -o p22' p22
line 'nvcc -forward-unknown-to-host-compiler -Wall -fno-inline -march=native -pthread one.cu -o p23' p23
line 'nvcc one.o --forward-unknown-to-host-linker --as-needed -znow -o p24' p24
line 'nvcc -forward-unknown-opts -no-pie -Xcompiler -fopenmp threads.cpp -o p25' p25
line 'nvcc -Xcompiler -fopenmp -run -run-args b,c,d threads.cpp -o p26'
line 'nvcc one.cu -o p38 && nvcc --run p38 && nvcc -run "\"$PWD/p38\""'
line 'nvcc -ccbin=g++ -allow-unsupported-compiler -w -Werror all-warnings one.o -o p27' p27
line 'nvcc -frandom-seed=3 -ftemplate-depth 500 -noeh -objtemp -c one.cu -o objs/one.o && nvcc -link objs/one.o -o p28' p28

# ---- languages, headers, macros, rules ----
line 'nvcc -x cu one.txt -o p29' p29
line 'nvcc -x=c++ -DVALUE -c a.c -o objs/a.o && nvcc -c one.o b.c'
line 'nvcc -include value.h -Iinclude one.cu -o p30' p30
line 'nvcc -isystem=include -DOTHER -UOTHER --define-macro X=1 includes.cu -o p31' p31
line 'nvcc --include-path include --output-file=p38 --std c++14 --optimize 1 -DOTHER=1 -D THIRD -UTHIRD includes.cu' p38
line "nvcc '-DNAME=\"a, b\"' '-DLIST=1\\,2' -DA,B=2 names.c -o p32" p32
line 'nvcc --options-file options.txt one.cu -o p33' p33
line 'nvcc -MD -MF objs/dep.d -MT target -MP -isystem include -c includes.cu -o objs/includes.o && nvcc objs/includes.o -o p34' p34
line 'nvcc -M -Iinclude includes.cu -odir objs -o objs/rule && nvcc -E includes.cu -Iinclude -o objs/text'
grep -q '^objs/includes.o' objs/rule || fail "the rule of -M -odir is for: $(head -1 objs/rule)"
line 'nvcc --list-gpu-arch && nvcc --list-gpu-code && nvcc --version && nvcc -v one.o -o p35' p35

[ "$lines" -ge 40 ] || fail "only $lines command lines"
finish "$lines command lines"
