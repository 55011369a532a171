#!/usr/bin/env bash
# programs.sh [BUILD] - compiles with nvcc what runs on a GPU, into BUILD/gpu: trainers, samples, the probes of this folder, each as NAME (shared cudart) and
# NAME_static, and ddprun's own kernels; for sm_80, sm_90 and as PTX. Called by bundle.sh and run.sh. What is newer than its sources stays.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
source "$root/tests/gpu/libraries.sh"
build=$(cd "${1:-$root/build}" && pwd)
architectures=(-gencode 'arch=compute_80,code=sm_80' -gencode 'arch=compute_90,code=[sm_90,compute_90]')

file=samples/common/parameter_file.c
digits="samples/digits/options.c samples/digits/data.c samples/digits/model.c samples/digits/kernels.cu $file"
chargpt="samples/chargpt/options.c samples/chargpt/text.c samples/chargpt/layout.c samples/chargpt/model.c
    samples/chargpt/checkpoint.c samples/chargpt/sampling.c samples/chargpt/kernels.cu $file"
kmeans="samples/kmeans/options.c samples/kmeans/points.c samples/kmeans/lloyd.cu"

# name, sources, options of compiler and linker
programs() {
    cat <<TABLE
ladder           | tests/trainers/ladder.cu $file          |
habits           | tests/trainers/habits.cu                | -lcuda
graphs           | tests/trainers/graphs.cu                | -lcuda
libraries        | tests/trainers/libraries.cu $file       | -lcublas -lcublasLt
values           | tests/trainers/values.c                 | -lm
types_legacy     | tests/trainers/types.c                  |
types_per_thread | tests/trainers/types.c                  | -DCUDA_API_PER_THREAD_DEFAULT_STREAM
thousands        | tests/gpu/thousands.cu                  |
probe            | tests/gpu/probe.cu                      |
launches         | tests/gpu/launches.cu                   |
tokens           | tests/gpu/tokens.cu                     |
overlap_rank     | tests/bench/overlap_rank.cu             |
host_memory      | tests/trainers/host_memory.cu           |
reduces          | tests/trainers/reduces.cu               |
sick             | tests/trainers/sick.cu                  |
arithmetic       | tests/gpu/arithmetic.cu                 | -I$root -O3
atomics          | tests/gpu/atomics.cu                    |
atomics_clip     | tests/gpu/atomics_clip.cu               |
ends             | tests/tools/plan/ends/ends.cu           | -I$root
nccl_alone       | tests/gpu/nccl_alone.c                  | ${includes[*]}
digits           | samples/digits/main.c ${digits//$'\n'/ }        | -lcublas
digits_plain     | samples/digits/main_plain.c ${digits//$'\n'/ }  | -lcublas
chargpt          | samples/chargpt/main.c ${chargpt//$'\n'/ }       | -lcublas
chargpt_plain    | samples/chargpt/main_plain.c ${chargpt//$'\n'/ } | -lcublas
kmeans           | samples/kmeans/main.c $kmeans           | -lm
kmeans_plain     | samples/kmeans/main_plain.c $kmeans     | -lm
TABLE
}

gpu_nvcc_find || exit 2
mkdir -p "$build/gpu/objects"
cuda=$("$gpu_nvcc" --version | sed -n 's/.* release \([0-9]*\)\..*/\1/p')
[ "$cuda" = "$(cat "$build/gpu.cuda" 2>/dev/null)" ] || rm -f "$build"/gpu/objects/*
echo "$cuda" >"$build/gpu.cuda"
gpu_cuda_of "$build"
gpu_libraries_find "${gpu_library_names[@]:0:3}" || exit 2
places=()
IFS=: read -r -a folders <<<"$gpu_library_path"
for folder in "${folders[@]}"; do
    places+=("-L$folder" "-L$folder/stubs")
done
places+=(-L"${gpu_nvcc%/bin/nvcc}/lib64/stubs" -L"${gpu_nvcc%/bin/nvcc}/lib/stubs" -L/usr/lib/x86_64-linux-gnu)
includes=() # of nccl.h
for folder in ${NCCL_HOME:+"$NCCL_HOME/include"} /usr/local/include $(gpu_wheels | sed 's,$,/nccl/include,'); do
    [ ! -e "$folder/nccl.h" ] || includes+=("-I$folder")
done

# compile NAME SOURCES OPTIONS: one program in both shapes; called where `set -e` does not reach. Names of wheels' libraries have a version behind them.
compile() {
    local name=$1 source object objects=() newest=0 options=() libraries=() word
    for word in $3; do
        case $word in
        -lcublas | -lcublasLt) libraries+=("-l:lib${word#-l}.so.$cuda") ;;
        -l*) libraries+=("$word") ;;
        *) options+=("$word") ;;
        esac
    done
    for source in $2; do
        object=$build/gpu/objects/$name-$(basename "$source").o
        objects+=("$object")
        # headers are few: any that is newer compiles again
        [ "$object" -nt "$root/$source" ] && [ "$object" -nt "$build/gpu/stamp" ] && continue
        newest=1
        "$gpu_nvcc" -O2 -g -D_GNU_SOURCE "${architectures[@]}" -I"$root/samples" -I"$root/interpose/include" "${options[@]}" \
            -c "$root/$source" -o "$object" || return
    done
    [ "$newest" -eq 1 ] || [ ! -x "$build/gpu/${name}_static" ] || [ ! -x "$build/gpu/$name" ] || return 0
    "$gpu_nvcc" -cudart none "${architectures[@]}" "${objects[@]}" "${places[@]}" "${libraries[@]}" -l:libcudart.so.$cuda \
        -o "$build/gpu/$name" || return
    "$gpu_nvcc" -cudart none "${architectures[@]}" "${objects[@]}" "${places[@]}" "${libraries[@]}" -l:libcudart_static.a \
        -ldl -lrt -lpthread -o "$build/gpu/${name}_static"
}

# cuBLAS inside a program: only where the toolkit has its archive
own_cublas() {
    local archive=
    for folder in "${folders[@]}"; do
        [ ! -e "$folder/libcublas_static.a" ] || archive=$folder/libcublas_static.a
    done
    [ -n "$archive" ] || return 0
    "$gpu_nvcc" -cudart none "${architectures[@]}" "$build"/gpu/objects/libraries-*.o "${places[@]}" -l:libcublas_static.a \
        -l:libcublasLt_static.a -lculibos -l:libcudart_static.a -ldl -lrt -lpthread -o "$build/gpu/libraries_own_cublas"
}

# The newest header decides what is compiled again.
header=$(find "$root/samples" "$root/tests" "$root/interpose/include" "${BASH_SOURCE[0]}" \( -name '*.h' -o -name programs.sh \) -printf '%T@ %p\n' |
    sort -n | tail -n 1)
touch -r "${header#* }" "$build/gpu/stamp"
failed=$build/gpu/objects/failed # asked in place of exit codes, which bash forgets of jobs that it has counted
rm -f "$failed"
while IFS='|' read -r name sources options; do
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do
        sleep 0.1 # between looks
    done
    (compile "${name// /}" "$sources" "$options" || {
        printf 'programs.sh: %s: not compiled\n' "${name// /}" >&2
        touch "$failed"
    }) &
done < <(programs)
wait
own_cublas || touch "$failed"
for of in ddprun:comm/kernels ddprun-plan:tools/plan/trainer/kernels; do # an earlier driver loads nothing of a later CUDA
    "$gpu_nvcc" -fatbin "${architectures[@]}" -O3 -I"$root" "$root/${of#*:}/kernels.cu" -o "$build/gpu/${of%:*}-kernels.fatbin" || touch "$failed"
done
[ ! -e "$failed" ]
