#!/usr/bin/env bash
# compilers.sh BUILD - the product compiles without a warning by each of gcc 10 to 13 and clang 14 to 16 that is here, and with headers of
# CUDA 12.4, 12.9 and 13 and of NCCL 2.18 to 2.28. Says which. Built with those of CUDA 12.9 it trains, too. The headers are downloaded, so
# it is a soak; of the hosted workflow (.github/workflows/ci.yml) each cell of the table is one of these.
#   compilers.sh BUILD COMPILER [CUDA [NCCL]]    one cell: clang-15 12.4 2.18
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
build=$(realpath "${1:?usage: compilers.sh BUILD [COMPILER [CUDA [NCCL]]]}")
[ -e "$build/compile_commands.json" ] || skip "$build was not configured"
python3 -m pip --version >/dev/null 2>&1 || skip "no pip for Python (package python3-pip)"
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-compilers.XXXXXX")
at_exit 'rm -rf "$work"'
shown=$work/out
: >"$shown"
compilers=(gcc-10 gcc-11 gcc-12 gcc-13 clang-14 clang-15 clang-16)

# The wheels with the headers of a release.
declare -A cuda=(
    [12.4]='nvidia-cuda-runtime-cu12==12.4.127 nvidia-cuda-nvcc-cu12==12.4.131 nvidia-cuda-cccl-cu12==12.4.127 nvidia-cublas-cu12==12.4.5.8
            nvidia-nvtx-cu12==12.4.127 nvidia-cuda-profiler-api-cu12==12.4.127'
    [12.9]='nvidia-cuda-runtime-cu12==12.9.79 nvidia-cuda-nvcc-cu12==12.9.86 nvidia-cuda-cccl-cu12==12.9.27 nvidia-cublas-cu12==12.9.1.4
            nvidia-nvtx-cu12==12.9.79 nvidia-cuda-profiler-api-cu12==12.9.79'
    [13]='nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85 nvidia-nvtx==13.0.85
          nvidia-cuda-profiler-api==13.0.85 nvidia-cublas==13.1.0.3')
declare -A nccl=([2.18]=nvidia-nccl-cu12==2.18.3 [2.20]=nvidia-nccl-cu12==2.20.5 [2.23]=nvidia-nccl-cu12==2.23.4
    [2.26]=nvidia-nccl-cu12==2.26.5 [2.28]=nvidia-nccl-cu13==2.28.9)

# headers NAME WHEEL...: into $work/NAME; `folders` has those with headers.
headers() {
    local name=$1
    shift
    if [ ! -d "$work/$name" ]; then
        mkdir "$work/$name"
        # shellcheck disable=SC2068 # the words of the tables
        python3 -m pip download --quiet --no-deps --only-binary :all: --disable-pip-version-check --dest "$work/$name" $@ \
            </dev/null >"$work/out" 2>&1 || return
        for wheel in "$work/$name"/*.whl; do
            (cd "$work/$name" && python3 -m zipfile -e "$wheel" . && rm "$wheel")
        done
    fi
    mapfile -t folders < <(find "$work/$name/nvidia" -mindepth 2 -maxdepth 3 -type d \( -name include -o -path '*/include/cccl' \))
}

# compiles COMPILER CUDA NCCL: a cell. Of a release that is not named the build's own headers are taken.
compiles() {
    local all=() folders=() said words=$1
    command -v "$1" >/dev/null || {
        not_ok "$1" "there is no such compiler here"
        return 0
    }
    if [ -n "$2" ]; then
        headers "cuda-$2" "${cuda[$2]:?no headers of CUDA $2 are known}" || {
            not_ok "headers of CUDA $2" "no download"
            return 0
        }
        all+=("${folders[@]}")
    fi
    if [ -n "$3" ]; then
        headers "nccl-$3" "${nccl[$3]:?no headers of NCCL $3 are known}" || {
            not_ok "headers of NCCL $3" "no download"
            return 0
        }
        all+=("${folders[@]}")
    fi
    case $1 in gcc-10 | gcc-11) words="$1 -Wno-stringop-overflow" ;; esac # as cmake/Toolbox.cmake does
    if nice python3 tests/install/compile_product.py "$build" "$words" "${all[@]}" >"$work/out" 2>&1; then said=; else said="see below"; fi
    report "$1${2:+, CUDA $2}${3:+, NCCL $3}: $(tail -n 1 "$work/out")" "$said"
}

# trains CUDA: shim and engine that are built with the headers of that release train on the stand-in, to the bits of the build.
trains() {
    local product=$work/product front
    command -v ninja >/dev/null && [ -e "$build/build.ninja" ] && [ -x "$build/samples/digits" ] || {
        echo "# CUDA $1: not built by ninja, or without samples"
        return 0
    }
    headers "cuda-$1" "${cuda[$1]}" || return 0 # compiles() reports it
    front=$(printf ' -isystem %s' "${folders[@]}")
    mkdir -p "$product/bin" "$product/archive" "$product/lib"
    cp "$build/bin/ddprun" "$product/bin/"
    ln -s "$build/lib/softgpu" "$product/lib/softgpu"
    # Their own headers come first, and so nothing that was compiled before them.
    ninja -C "$build" -t commands lib/libddprun.so lib/libddprun-engine.so | grep -vE '^ninja: |^cd |cmake_pch\.h\.gch' |
        sed "/ -c /{s#^[^ ]*#&$front#; s# -include [^ ]*cmake_pch\\.h##}" >"$product/commands"
    sed -n 's#.* -o \([^ ]*\)/[^ ]* -c .*#\1#p' "$product/commands" | sort -u | (cd "$product" && xargs mkdir -p)
    check "CUDA $1: shim and engine are built" bash -c "cd '$product' && nice bash -e commands >'$work/out' 2>&1"
    check "CUDA $1: by its headers" grep -qa "$work/cuda-$1/nvidia/cuda_runtime/include" "$product/lib/libddprun.so"
    for of in "$build" "$product"; do
        check "CUDA $1: a sample trains by the $(basename "$of")" timeout -k 1 "$(patient 100)" "$of/bin/ddprun" -n 2 -q --check-every 1 --bucket-mb 0.02 \
            "$build/samples/digits" --data samples/data/digits.csv --batch 32 --steps 20 --save "$work/by-$(basename "$of")"
    done
    check "CUDA $1: to the same bits" cmp "$work/by-$(basename "$build")" "$work/by-product"
    rm -r "$product"
}

if [ $# -gt 1 ]; then
    compiles "$2" "${3:-}" "${4:-}"
    compilers=() cuda=() nccl=()
fi
for compiler in "${compilers[@]}"; do
    if command -v "$compiler" >/dev/null; then compiles "$compiler" "" ""; else echo "# $compiler is not here"; fi
done
for release in "${!cuda[@]}"; do
    compiles gcc "$release" ""
    ! command -v clang >/dev/null || compiles clang "$release" ""
done
[ ${#cuda[@]} -eq 0 ] || trains 12.9
for release in "${!nccl[@]}"; do
    compiles gcc "" "$release"
done
finish
