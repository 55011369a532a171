#!/usr/bin/env bash
# images.sh BUILD - drivers from 550 on find code that they load, on Volta to Blackwell: the images for drivers of CUDA 12 and of CUDA 13, the
# PTX that they are made of, and what they add to the packages (kernels.sh). With DDPRUN_SOAK=1 for all architectures, whatever the build has.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
build=$(realpath "${1:?usage: images.sh BUILD}")
[ -e "$build/lib/ddprun-kernels.fatbin" ] || skip "no nvcc of CUDA 13"
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-images.XXXXXX")
at_exit 'rm -rf "$work"'
shown=$work/list

# lists NAME WANTED FILE...: what images.py says of the files, in one line.
lists() {
    python3 tests/install/images.py "${@:3}" >"$work/list" 2>&1 || true
    check "$1: $2" [ "$(paste -sd, "$work/list")" = "$2" ]
}

# lists_kinds NAME FATBIN ARCHITECTURE...: nvcc's images of these, and PTX of the last, in any order.
lists_kinds() {
    local wanted
    wanted=$({ printf 'elf %s\n' "${@:3}" && echo "ptx ${*: -1}"; } | sort | paste -sd,)
    python3 tests/install/images.py "$2" 2>&1 | cut -d ' ' -f 1,2 >"$work/list" || true
    check "$1: for CUDA 13 $wanted" [ "$(sort "$work/list" | paste -sd,)" = "$wanted" ]
}

# wanted ARCHITECTURE...: the images of a fatbin, and the cubins: those of Blackwell have another ABI, which its drivers, from 570 on, know.
wanted() {
    local architecture
    fatbin='' cubins=''
    for architecture in "$@"; do
        fatbin+="elf $architecture zstd,"
        if [ "$architecture" -lt 100 ]; then cubins+="cubin $architecture osabi 0x33 abi 7,"; else cubins+="cubin $architecture osabi 0x41 abi 8,"; fi
    done
    fatbin+="ptx 70 zstd"
    cubins=${cubins%,}
}

# looked_at NAME FATBIN FOLDER ARCHITECTURE...: a fatbin, and the folder of what it is made of.
looked_at() {
    local name=$1 file=$2 folder=$3
    shift 3
    wanted "$@"
    lists "$name" "$fatbin" "$file"
    files=("${@/%/.cubin}")
    files=("${files[@]/#/$folder/sm_}")
    lists "$name" "$cubins" "${files[@]}"
    check "$name: PTX of CUDA 11.8 for Volta" [ "$(grep -E '^\.(version|target) ' "$folder/compute_70.ptx" | paste -sd' ')" = '.version 7.8 .target sm_70' ]
}

of_12=(70 80 90 100 120)     # Turing, 7.5, runs Volta's
of_13=(75 80 90 100 110 120) # all-major of nvcc 13.0
build_12=("${of_12[@]}") build_13=("${of_13[@]}")
architecture=$(sed -n 's/^DDPRUN_GPU_ARCHITECTURES:STRING=sm_\([0-9]*\)$/\1/p' "$build/CMakeCache.txt")
if [ -n "$architecture" ]; then
    build_12=("$architecture") build_13=("$architecture")
fi
looked_at "buckets" "$build/lib/ddprun-kernels-cuda12.fatbin" "$build/comm/kernels/cuda12" "${build_12[@]}"
looked_at "plans" "$build/lib/ddprun-plan-kernels-cuda12.fatbin" "$build/tools/plan/trainer/kernels/cuda12" "${build_12[@]}"
lists_kinds "buckets" "$build/lib/ddprun-kernels.fatbin" "${build_13[@]}"
lists_kinds "plans" "$build/lib/ddprun-plan-kernels.fatbin" "${build_13[@]}"
if [ "${DDPRUN_SOAK:-0}" = 1 ]; then
    eval "$(cmake -P cmake/Cuda.cmake | grep -E '^(NVCC|PTXAS_12)=')"
    for kernels in comm/kernels tools/plan/trainer/kernels; do
        cmake "-DNVCC=$NVCC" "-DFATBINARY=${NVCC%/*}/fatbinary" "-DPTXAS=$PTXAS_12" "-DARCHITECTURES=${of_12[*]}" "-DINCLUDE=$PWD" \
            "-DSOURCE=$PWD/$kernels/kernels.cu" "-DWORK=$work/$kernels" "-DOUTPUT=$work/$(tr / _ <<<"$kernels").fatbin" -P cmake/Cuda12Kernels.cmake
        looked_at "all of $kernels" "$work/$(tr / _ <<<"$kernels").fatbin" "$work/$kernels" "${of_12[@]}"
        "$NVCC" -fatbin -arch=all-major -O3 -I. "$kernels/kernels.cu" -o "$work/cuda13"
        lists_kinds "all of $kernels" "$work/cuda13" "${of_13[@]}"
    done
    bytes=$(cat "$work"/*.fatbin | wc -c)
    check "all together $bytes bytes, at most 2 MB" [ "$bytes" -le 2000000 ]
fi
finish
