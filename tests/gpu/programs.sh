#!/usr/bin/env bash
# programs.sh [BUILD] - compiles with nvcc what runs on a GPU, into BUILD/gpu: trainers, samples, the probes of this folder, each as NAME (shared cudart) and
# NAME_static, libwrap_nccl.so, and ddprun's own kernels, for drivers of CUDA 12, too. Code is for sm_80 and sm_90, and PTX of the former. Called by bundle.sh
# and run.sh. What is newer than its sources stays.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
source "$root/tests/gpu/libraries.sh"
build=$(cd "${1:-$root/build}" && pwd)
# The compiler proper runs once for both; what has code of its own for sm_90 names it.
architectures=(-gencode 'arch=compute_80,code=[sm_80,sm_90,compute_80]')
of_sm_90=(-gencode 'arch=compute_80,code=[sm_80,compute_80]' -gencode 'arch=compute_90,code=sm_90')

file=samples/common/parameter_file.c
digits="samples/digits/options.c samples/digits/data.c samples/digits/model.c samples/digits/kernels.cu $file"
chargpt="samples/chargpt/options.c samples/chargpt/text.c samples/chargpt/layout.c samples/chargpt/model.c
    samples/chargpt/checkpoint.c samples/chargpt/sampling.c samples/chargpt/kernels.cu $file"
kmeans="samples/kmeans/options.c samples/kmeans/points.c samples/kmeans/lloyd.cu"

# name, sources, options of compiler and linker; what takes longest comes first
programs() {
    cat <<TABLE
arithmetic       | tests/gpu/arithmetic.cu                 | -I$root -O3
ladder           | tests/trainers/ladder.cu $file          |
habits           | tests/trainers/habits.cu                | -lcuda
graphs           | tests/trainers/graphs.cu                | -lcuda
libraries        | tests/trainers/libraries.cu $file       | -lcublas -lcublasLt
values           | tests/trainers/values.c                 | -lm
halves           | tests/trainers/halves.c                 | -lm
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
atomics          | tests/gpu/atomics.cu                    |
atomics_clip     | tests/gpu/atomics_clip.cu               |
ends             | tests/tools/plan/ends/ends.cu           | -I$root -lcuda
deviates         | tests/trainers/deviates.cu              |
deviates_own     | tests/trainers/deviates.cu              | -DOWN_NCCL ${includes[*]} -lnccl
features         | tests/trainers/features.cu              | ${of_sm_90[*]} -lcuda
nccl_alone       | tests/gpu/nccl_alone.c                  | ${includes[*]}
$([ ! -e "$root/tests/gpu/gate.cu" ] || echo "gate             | tests/gpu/gate.cu                       | ${includes[*]} -lcuda")
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
        -lnccl) libraries+=(-l:libnccl.so.2) ;;
        -l*) libraries+=("$word") ;;
        *) options+=("$word") ;;
        esac
    done
    [[ $3 == *-gencode* ]] || options+=("${architectures[@]}")
    [[ $3 == *-O3* ]] || options+=(-O2)
    for source in $2; do
        object=$build/gpu/objects/$name-$(basename "$source").o
        objects+=("$object")
        # headers are few: any that is newer compiles again
        [ "$object" -nt "$root/$source" ] && [ "$object" -nt "$build/gpu/stamp" ] && continue
        newest=1
        "$gpu_nvcc" -g -D_GNU_SOURCE -I"$root/samples" -I"$root/interpose/include" "${options[@]}" \
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

# An NCCL to link with, by the names that are wanted of it: the machine that compiles may have none. Where programs run there is one.
nccl_stub() {
    local name folder=$build/gpu/objects/stub
    mkdir -p "$folder"
    for name in GetUniqueId CommInitRank AllReduce CommDestroy; do
        printf 'int nccl%s(void);\nint nccl%s(void) { return 1; }\n' "$name" "$name"
    done | gcc -shared -fPIC -x c -Wl,-soname,libnccl.so.2 -o "$folder/libnccl.so.2" -
    places+=(-L"$folder")
}

wrap_nccl() {
    gcc -shared -fPIC -fvisibility=hidden -O2 -g -D_GNU_SOURCE -I"${gpu_nvcc%/bin/nvcc}/include" "${includes[@]}" \
        "$root/tests/end_to_end/wrap_nccl.c" -Wl,--no-as-needed "${places[@]}" -l:libnccl.so.2 -o "$build/gpu/libwrap_nccl.so"
}

# kernels NAME FOLDER: FOLDER/kernels.cu as NAME-kernels.fatbin and, where the product's build makes it, NAME-kernels-cuda12.fatbin. A driver
# loads nothing of a later CUDA.
kernels() {
    local to=$build/gpu/$1-kernels
    "$gpu_nvcc" -fatbin "${architectures[@]}" -O3 -I"$root" "$root/$2/kernels.cu" -o "$to.fatbin" || return
    [ -e "$build/lib/$1-kernels-cuda12.fatbin" ] || return 0
    cmake "-DNVCC=$gpu_nvcc" "-DFATBINARY=${gpu_nvcc%/*}/fatbinary" "-DPTXAS=$ptxas_12" "-DARCHITECTURES=80 90" "-DINCLUDE=$root" \
        "-DSOURCE=$root/$2/kernels.cu" "-DWORK=$build/gpu/objects/$1" "-DOUTPUT=$to-cuda12.fatbin" -P "$root/cmake/Cuda12Kernels.cmake"
}

# wait_for_core: until fewer jobs run than there are cores.
wait_for_core() {
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do
        sleep 0.1 # between looks
    done
}

# The newest header decides what is compiled again.
header=$(find "$root/samples" "$root/tests" "$root/interpose/include" "${BASH_SOURCE[0]}" \( -name '*.h' -o -name programs.sh \) -printf '%T@ %p\n' |
    sort -n | tail -n 1)
touch -r "${header#* }" "$build/gpu/stamp"
nccl_stub
failed=$build/gpu/objects/failed # asked in place of exit codes, which bash forgets of jobs that it has counted
rm -f "$failed"
ptxas_12=$(cmake -P "$root/cmake/Cuda.cmake" 2>&1 | sed -n 's/^PTXAS_12=//p')
while IFS='|' read -r name sources options; do
    wait_for_core
    (compile "${name// /}" "$sources" "$options" || {
        printf 'programs.sh: %s: not compiled\n' "${name// /}" >&2
        touch "$failed"
    }) &
done < <(programs | grep .)
for of in ddprun:comm/kernels ddprun-plan:tools/plan/trainer/kernels; do
    wait_for_core
    (kernels "${of%:*}" "${of#*:}" || {
        printf 'programs.sh: the kernels of %s: not compiled\n' "${of#*:}" >&2
        touch "$failed"
    }) &
done
wait
wrap_nccl || touch "$failed"
own_cublas || touch "$failed"
[ ! -e "$failed" ]
