#!/usr/bin/env bash
# type_of.sh INCLUDES COMPILER - DDP_TYPE_OF in templates knows float, double and CUDA's half types, wherever the headers of those stand, in C++11 and later,
# for COMPILER, clang and nvcc; other types do not compile, and the compiler names those that do. DDP_MEAN takes a float or a double that can be written,
# DDP_ANY an int, also one that a signal handler writes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/../lib/lib.sh"
includes=(-I"$here/../../interpose/include" -isystem "$1")
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-type-of.XXXXXX")
at_exit 'rm -rf "$work"'
shown=$work/out

compiles() { "$@" -Wall -Wextra -Werror -fsyntax-only "${includes[@]}" >"$work/out" 2>&1; }
refused() { # TEXT COMMAND...: with TEXT in the compiler's message
    local text=$1
    shift
    ! compiles "$@" && grep -qE "$text" "$work/out"
}

# shellcheck disable=SC2046 # a word for each compiler that is there
for compiler in "$2" $(command -v clang++); do
    cxx=("$compiler" -x c++ "$here/type_of.cpp")
    for what in "11 -DHALF_FIRST" "11 -DHALF_LAST" "11 -DNO_HALF" "20 -DHALF_LAST"; do
        check "${compiler##*/} C++$what" compiles "${cxx[@]}" "-std=c++${what% *}" "${what#* }"
    done
    for wrong in int char 'struct unknown' 'long double' void; do
        check "${compiler##*/}: not of $wrong" refused "takes a pointer to float, double, __half|sizeof.*(void|incomplete)" "${cxx[@]}" -std=c++11 "-DWRONG=$wrong"
    done
    check "${compiler##*/}: not of what becomes a half" refused "takes a pointer to float" "${cxx[@]}" -std=c++11 -DHALF_LAST -DWRONG=trainer::alike
    c=("$compiler" -x c "$here/mean_of.c")
    for mean in float double; do
        check "${compiler##*/}: DDP_MEAN of a $mean" compiles "${c[@]}" "-DTYPE=$mean"
        check "${compiler##*/}: DDP_MEAN of a $mean in C99" compiles "${c[@]}" -std=c99 -pedantic "-DTYPE=$mean"
        check "${compiler##*/}: DDP_MEAN of a $mean in C++98" compiles "$compiler" -x c++ "$here/mean_of.c" -std=c++98 "-DTYPE=$mean"
    done
    for mean in int 'const float' 'long double'; do
        check "${compiler##*/}: DDP_MEAN not of a $mean" refused "not compatible with any (generic )?association" "${c[@]}" "-DTYPE=$mean"
        check "${compiler##*/}: DDP_MEAN not of a $mean in C++" refused "(no matching function|initializing argument).*ddp_mean_type_" "$compiler" -x c++ "$here/mean_of.c" "-DTYPE=$mean"
    done
    for flag in int 'volatile int' sig_atomic_t 'volatile sig_atomic_t'; do
        check "${compiler##*/}: DDP_ANY of a $flag" compiles "${c[@]}" "-DFLAG=$flag"
        check "${compiler##*/}: DDP_ANY of a $flag in C99" compiles "${c[@]}" -std=c99 -pedantic "-DFLAG=$flag"
        check "${compiler##*/}: DDP_ANY of a $flag in C++98" compiles "$compiler" -x c++ "$here/mean_of.c" -std=c++98 "-DFLAG=$flag"
    done
    for flag in unsigned long bool 'const int' float; do
        check "${compiler##*/}: DDP_ANY not of a $flag" refused "not compatible with any (generic )?association" "${c[@]}" "-DFLAG=$flag"
        check "${compiler##*/}: DDP_ANY not of a $flag in C++" refused "(no matching function|initializing argument|invalid conversion|cannot convert).*(ddp_any_at|volatile int)" "$compiler" -x c++ "$here/mean_of.c" "-DFLAG=$flag"
    done
    for size in size_t 'unsigned long'; do
        check "${compiler##*/}: DDP_SHARD into $size" compiles "${c[@]}" "-DSIZE=$size"
    done
    for size in int unsigned long; do
        check "${compiler##*/}: DDP_SHARD not into $size" refused "not compatible with any (generic )?association" "${c[@]}" "-DSIZE=$size"
        check "${compiler##*/}: DDP_SHARD not into $size in C++" refused "(no matching function|initializing argument|invalid conversion|cannot convert).*(size_t|ddp_shard_alone|unsigned long)" \
            "$compiler" -x c++ "$here/mean_of.c" "-DSIZE=$size"
    done
    # What an annotation says of its memory: the pointer's type, and what is wrong, if anything.
    while IFS='|' read -r pointer type wrong; do
        for language in "c -std=gnu99" "c -std=c11 -pedantic" "c++ -std=c++11" "c++ -std=c++20"; do
            in_turn 8 || continue
            # shellcheck disable=SC2206 # two words or three
            annotated=("$compiler" -x $language "$here/mean_of.c" "-DPOINTER=$pointer" "-DELEMENT=$type")
            case $wrong in
            "") check "${compiler##*/} ${language%% *}: $pointer of $type" compiles "${annotated[@]}" ;;
            *) check "${compiler##*/} ${language%% *}: $pointer of $type is refused" refused "$wrong" "${annotated[@]}" ;;
            esac
        done
    done <<'END'
float *p|DDP_FLOAT32|
const float *p|DDP_FLOAT32|
void *p|DDP_FLOAT64|
const void *p|DDP_FLOAT16|
unsigned char *p|DDP_FLOAT32|
unsigned short *p|DDP_BFLOAT16|
unsigned long long p|DDP_FLOAT32|
float p[3]|DDP_FLOAT32|
float p[3][2]|DDP_FLOAT32|
struct four *p|DDP_FLOAT32|
float *p|variable|
double *p|variable|
const double *p|DDP_FLOAT64|
float *p|DDP_INT32|
float *p|DDP_UINT8|
double *p|DDP_FLOAT32|another size than the type says
const float *p|DDP_FLOAT16|another size than the type says
float *p|DDP_FLOAT64|another size than the type says
float p[3]|DDP_BFLOAT16|another size than the type says
float **p|DDP_FLOAT32|a pointer to a pointer is annotated
float *const *p|variable|a pointer to a pointer is annotated
void **p|DDP_FLOAT32|a pointer to a pointer is annotated
END
    check "${compiler##*/}: DDP_TYPE_OF not of an int in C" refused "type .int. .*not compatible with any" "${c[@]}" -DTYPE=float -DWRONG=int
done
if command -v nvcc >/dev/null; then # its -cuda ends before the host's compiler
    nvcc=(nvcc -x cu -cuda -o "$work/out.ii" -I"$here/../../interpose/include" "$here/type_of.cpp")
    check "nvcc" "${nvcc[@]}" -DHALF_LAST
    check "nvcc: not of int" bash -c '"$@" 2>&1 | grep "takes a pointer to float"' - "${nvcc[@]}" -DWRONG=int
fi
finish
