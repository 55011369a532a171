# shellcheck shell=bash disable=SC2034 # the scripts that source it use its variables
# libraries.sh - where are NVIDIA's driver, cudart, cuBLAS and NCCL on this machine, and is there an nvcc? Sourced by first.sh,
# run.sh, programs.sh and bundle.sh. And an MPS of our own, while ranks share a GPU. Looks in toolkits, in Python wheels (site-packages/nvidia/*/lib) and where the loader looks;
# $GPU_LIBRARIES, folders with ':' between them, replaces all these places.

# gpu_cuda_of BUILD: names the libraries of the CUDA that programs in BUILD/gpu are built with, which programs.sh writes to BUILD/gpu.cuda (none: 13).
gpu_cuda_of() {
    gpu_cuda=$(cat "$1/gpu.cuda" 2>/dev/null || echo 13)
    gpu_library_names=("libcudart.so.$gpu_cuda" "libcublas.so.$gpu_cuda" "libcublasLt.so.$gpu_cuda" libnccl.so.2 libcuda.so.1)
}
# gpu_library_means NAME: what a person installs to have it.
gpu_library_means() {
    local earlier=${gpu_cuda#13}
    case $1 in
    libcuda.*) echo "the driver" ;;
    libnccl.*) echo "NCCL; package nvidia-nccl-cu$gpu_cuda of pip, or libnccl2" ;;
    libcudart.*) echo "cudart of CUDA $gpu_cuda; package nvidia-cuda-runtime${earlier:+-cu$earlier} of pip, or a toolkit" ;;
    *) echo "cuBLAS of CUDA $gpu_cuda; package nvidia-cublas${earlier:+-cu$earlier} of pip, or a toolkit" ;;
    esac
}
declare -A gpu_library # name -> path

gpu_toolkits() {
    local nvcc
    if [ -n "${GPU_TOOLKITS:-}" ]; then # for tests
        tr ':' '\n' <<<"$GPU_TOOLKITS"
        return
    fi
    [ -z "${CUDA_HOME:-}" ] || printf '%s\n' "$CUDA_HOME"
    nvcc=$(command -v nvcc) && nvcc=$(realpath "$nvcc") && printf '%s\n' "${nvcc%/bin/nvcc}"
    printf '%s\n' /usr/local/cuda /usr/local/cuda-1[23]*
}

# The folders `nvidia` of Python's packages, of the Python on the PATH first.
gpu_wheels() {
    { python3 -c 'import site, sys; print(*dict.fromkeys(p for p in sys.path + site.getsitepackages() if "packages" in p), sep="\n")' \
        2>/dev/null || true; } | sed 's,$,/nvidia,'
    printf '%s\n' ${VIRTUAL_ENV:+"$VIRTUAL_ENV"/lib/python3*/site-packages/nvidia} \
        ${HOME:+"$HOME"/.local/lib/python3*/site-packages/nvidia} /usr/lib/python3*/*-packages/nvidia \
        /usr/local/lib/python3*/*-packages/nvidia /opt/*/lib/python3*/site-packages/nvidia \
        /opt/*/.venv/lib/python3*/site-packages/nvidia ${root:+"$root/build/cuda/nvidia"}
}

gpu_folders() {
    local place folder
    if [ -n "${GPU_LIBRARIES:-}" ]; then
        tr ':' '\n' <<<"$GPU_LIBRARIES"
        return
    fi
    [ -z "${LD_LIBRARY_PATH:-}" ] || tr ':' '\n' <<<"$LD_LIBRARY_PATH"
    while read -r place; do
        printf '%s\n' "$place"/{lib64,lib,targets/x86_64-linux/lib}
    done < <(gpu_toolkits)
    [ -z "${NCCL_HOME:-}" ] || printf '%s\n' "$NCCL_HOME/lib"
    while read -r place; do
        for folder in "$place"/*/lib; do
            printf '%s\n' "$folder"
        done
    done < <(gpu_wheels)
    printf '%s\n' /usr/lib/x86_64-linux-gnu /usr/local/nvidia/lib64 /usr/local/nvidia/lib /usr/lib64 /usr/lib/wsl/lib /usr/lib \
        /usr/local/lib
    { ldconfig -p 2>/dev/null || /sbin/ldconfig -p 2>/dev/null || true; } | sed -n 's,.*=> \(.*\)/[^/]*$,\1,p' | sort -u
}

# gpu_count: prints how many GPUs there are, 0 if none; as many as device files where there is no nvidia-smi. Its whole answer is
# taken first: under pipefail `nvidia-smi | grep -q` fails when grep leaves early.
gpu_count() {
    local answer count
    answer=$(nvidia-smi -L 2>/dev/null) || answer=
    count=$(grep -c '^GPU ' <<<"$answer")
    [ "$count" -gt 0 ] || count=$({ compgen -G '/dev/nvidia[0-9]*' || compgen -G /dev/dxg; } | wc -l)
    echo "$count"
}

# gpu_libraries_find NAME...: fills gpu_library, and gpu_library_path with their folders, but for those where every loader looks
# last; prints a line for each that is missing to stderr, and fails.
gpu_libraries_find() {
    local folders name folder missing=0 said=::/usr/lib/x86_64-linux-gnu:/usr/lib:
    mapfile -t folders < <(gpu_folders | sed '/^$/d' | awk '!seen[$0]++')
    for name in "$@"; do
        for folder in "${folders[@]}"; do
            [ -e "$folder/$name" ] || continue
            gpu_library[$name]=$folder/$name
            break
        done
        if [ -z "${gpu_library[$name]:-}" ]; then
            printf '%s: no %s (%s) in toolkits, Python wheels or where the loader looks; GPU_LIBRARIES can name its folder\n' \
                "${0##*/}" "$name" "$(gpu_library_means "$name")" >&2
            missing=1
        fi
    done
    gpu_library_path=
    for name in "$@"; do
        folder=${gpu_library[$name]:+${gpu_library[$name]%/*}}
        case $said in
        *":$folder:"*) continue ;;
        esac
        said+=$folder:
        gpu_library_path+=${gpu_library_path:+:}$folder
    done
    return "$missing"
}

# gpu_bundle_libraries BUNDLE: the loader finds its Debian libraries, and those of gcc only where the machine has none.
gpu_bundle_libraries() {
    local known
    known=$({ ldconfig -p || /sbin/ldconfig -p || true; } 2>/dev/null)
    LD_LIBRARY_PATH=$1/debian${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    grep -q 'libstdc++\.so\.6 ' <<<"$known" || LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$1/debian/fallback
    export LD_LIBRARY_PATH
}

# gpu_nvcc_find: sets gpu_nvcc, or prints what is missing and fails.
gpu_nvcc_find() {
    local place
    while read -r place; do
        [ -x "$place/bin/nvcc" ] || continue
        gpu_nvcc=$place/bin/nvcc
        return
    done < <(
        gpu_toolkits
        [ -n "${GPU_TOOLKITS:-}" ] || gpu_wheels | while read -r place; do printf '%s\n' "$place"/*; done
    )
    printf '%s: no nvcc (compiler of a CUDA toolkit, 12.4 or newer; CUDA_HOME can name the toolkit)\n' "${0##*/}" >&2
    return 1
}

# ---- MPS: ranks that share a GPU run at the same time; without it they take turns ----
gpu_mps=0 # whether ours runs

# gpu_mps_start FOLDER PROGRAM...: in FOLDER, so that no other program of the machine is a client of it. Prints what became of it, and fails if
# there is none or PROGRAM does not run with it. Not in a subshell: it sets the environment.
gpu_mps_start() {
    if ! command -v nvidia-cuda-mps-control >/dev/null; then
        echo 'no MPS (nvidia-cuda-mps-control): ranks that share a GPU take turns'
        return 1
    fi
    mkdir -p "$1/mps" "$1/mps-log"
    export CUDA_MPS_PIPE_DIRECTORY=$1/mps CUDA_MPS_LOG_DIRECTORY=$1/mps-log
    gpu_mps=1
    if timeout 30 nvidia-cuda-mps-control -d >/dev/null 2>&1 && timeout 60 "${@:2}" </dev/null >/dev/null 2>&1; then
        echo 'ranks that share a GPU run at the same time, by an MPS'
        return
    fi
    echo 'a program does not run under MPS here: ranks that share a GPU take turns'
    gpu_mps_stop
    return 1
}

gpu_mps_stop() {
    [ "$gpu_mps" -eq 1 ] || return 0
    gpu_mps=0
    echo quit | timeout 30 nvidia-cuda-mps-control >/dev/null 2>&1 || echo 'MPS did not end by quit' >&2
    unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
}
