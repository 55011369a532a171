#!/usr/bin/env bash
# torch_cuda.sh BUILD - the part of ddprun_torch.h for tensors on a GPU compiles without a warning, on the libtorch of this machine. Where libtorch is built
# without CUDA, as Debian's is, the file that CMake writes into one with CUDA is made here; the toolkit's headers are those of the stand-in. Only
# the syntax is seen: tests/gpu/torch.sh runs it.
source "$(dirname "$0")/../end_to_end/lib.sh"
[ -x "$build/samples/torch_digits" ] || skip "no libtorch was found when the build was configured (Debian: libtorch-dev)"
root=$(cd "$(dirname "$0")/../.." && pwd)
torch=/usr/include
[ -e "$torch/c10/cuda/CUDAStream.h" ] || skip "no c10/cuda/CUDAStream.h in $torch"

mkdir -p "$work/with_cuda/c10/cuda/impl"
echo '#define C10_CUDA_BUILD_SHARED_LIBS' >"$work/with_cuda/c10/cuda/impl/cuda_cmake_macros.h"
cat >"$work/is_there.cpp" <<END
#include "$root/samples/torch/main.cpp"
static_assert(DDP_TORCH_HAS_CUDA_ == 1, "the part for CUDA is compiled");
END
compile=(g++ -std=c++17 -fsyntax-only -Wall -Wextra -Werror -isystem "$torch/torch/csrc/api/include" -isystem "$work/with_cuda"
    -isystem "$build/lib/softgpu/toolkit/include" -I"$root/samples" -I"$root/interpose/include")
limit=600
works "the sample compiles with CUDA" "${compile[@]}" "$work/is_there.cpp"
finish
