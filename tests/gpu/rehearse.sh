#!/usr/bin/env bash
# rehearse.sh BUILD SUITE [CHECK...] - the bundle for GPU machines runs where nothing but a bare Debian SUITE is: no network, no package beyond
# the minimum, no compiler, another glibc. The stand-in's libraries lie in the places of NVIDIA's: of a toolkit under bookworm, of
# Python wheels elsewhere. Where there is an nvcc, the bundle for GPUs is made too, and held to its size and its architectures.
#
# Needs root, debootstrap and a mirror; takes minutes and some hundred MB of download, so it is a soak. All happens in a mount,
# process and network namespace of its own. CHECKs are those of first.sh (default: all). DDPRUN_BARE_ROOT names a bare root that is there already; it is copied.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
source tests/install/bare.sh
build=$(realpath "${1:?usage: rehearse.sh BUILD SUITE}")
suite=${2:?usage: rehearse.sh BUILD SUITE}
checks=("${@:3}")

if [ -z "$work" ]; then
    bare_needs "debootstrap, util-linux, python3" "" --net

    # ---- the bundle for GPUs ----
    source tests/gpu/libraries.sh
    if gpu_nvcc_find 2>/dev/null; then
        bash tests/gpu/bundle.sh --build "$build" "$work/gpu-bundle" >"$work/out" 2>&1 || complain "$(tail -n 3 "$work/out")"
        bash tests/gpu/architectures.sh "$work/gpu-bundle" || { [ $? -eq 77 ] || complain "the bundle's architectures"; }
    else
        echo "not made: the bundle for GPUs (no nvcc)"
    fi

    # ---- the bare root ----
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -v security | sed -n 1p)
    if [ -n "${DDPRUN_BARE_ROOT:-}" ]; then
        cp -a --one-file-system "$DDPRUN_BARE_ROOT" "$work/root"
    else
        bare_answers "${mirror%/}" "$suite" || skip "no mirror of Debian $suite answers"
        timeout -k 1 1200 debootstrap --variant=minbase "$suite" "$work/root" "${mirror%/}" </dev/null >"$work/out" 2>&1 || {
            echo "rehearse: debootstrap: $(tail -n 3 "$work/out")"
            exit 1
        }
    fi
    bash tests/gpu/bundle.sh --rehearse --no-archive --build "$build" "$work/root/bundle"
    bare_run tests/gpu/rehearse.sh "$build" "$suite" "${checks[@]}"
fi

# ---- inside ----
root=$work/root
bare_mounts
ip link set lo up 2>/dev/null || true

# The stand-in in NVIDIA's place.
system=$root/usr/lib/x86_64-linux-gnu
if [ "$suite" = bookworm ]; then
    toolkit=$root/usr/local/cuda-13.0/lib64 nccl=$system
else
    toolkit=$root/usr/local/lib/python3.13/dist-packages/nvidia/cu13/lib
    nccl=$root/usr/local/lib/python3.13/dist-packages/nvidia/nccl/lib
fi
mkdir -p "$toolkit" "$nccl"
from=$root/bundle/build/lib/softgpu
cp "$from"/lib{cudart,cublas,cublasLt}.so.13 "$from/libcurand.so.10" "$toolkit/"
cp "$from/libnccl.so.2" "$nccl/"
cp "$from"/libcuda.so.1 "$from"/libsoftgpu.so "$from"/lib{openblas,gfortran,quadmath}* "$system/"

in_root() {
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C SOFTGPU_ADDRESSES=real ${DDPRUN_SOAK:+DDPRUN_SOAK="$DDPRUN_SOAK"} \
        chroot "$root" "$@"
}

# refuses PATTERN: first.sh ends with exit code 2 and one line
refuses() {
    local code=0
    in_root /bundle/first.sh --rehearse --report /refused </dev/null >"$work/out" 2>&1 || code=$?
    [ "$code" -eq 2 ] && [ "$(grep -c '' "$work/out")" -eq 1 ] && grep -Eq "$1" "$work/out" ||
        complain "exit code $code and not one line with /$1/: $(tail -n 3 "$work/out")"
}

for library in "$nccl/libnccl.so.2" "$toolkit/libcublas.so.13" "$system/libcuda.so.1"; do
    mv "$library" "$work/aside"
    refuses "^first.sh: no ${library##*/} \("
    mv "$work/aside" "$library"
done

code=0
in_root /bundle/first.sh --rehearse --report /report "${checks[@]}" </dev/null || code=$?
cat "$root/report/report.md" || true
python3 - "$root/report/report.json" "$code" <<'PYTHON' || complain "the report is not what it has to be; exit code $code"
import json, re, sys
told = json.load(open(sys.argv[1]))
differs = [check["name"] for check in told["checks"] if check["verdict"] == "differs"]
assert int(sys.argv[2]) == (1 if differs else 0), "its exit code says whether something differs"
assert told["counts"]["differs"] == len(differs)
standin = re.compile("address of a __|managed memory read")
others = [name for name in differs if not standin.match(name)]
assert not others, f"on the stand-in all but what is about the driver is as expected: {others}"
PYTHON
# The scripts find the bundle's libraries by themselves, too.
in_root bash /bundle/tests/gpu/run.sh --rehearse /bundle/build inert </dev/null >"$work/out" 2>&1 ||
    complain "run.sh by itself: $(tail -n 3 "$work/out")"
left=$(find "$root/tmp" "$root/dev/shm" -mindepth 1)
[ -z "$left" ] || complain "left behind: $left"
finish "the bundle ran on a bare Debian $suite ($(in_root getconf GNU_LIBC_VERSION))"
