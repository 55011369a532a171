#!/usr/bin/env bash
# torch.sh [--rehearse] BUILD - samples/torch on a GPU: it is built against the torch that the machine's Python has, and ends with 2 ranks, which share
# a GPU where there is only one, with the parameters of one process; gradients are sent while backward runs. --rehearse: the same with the
# stand-in, on a torch without CUDA, to try out this script.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
source "$root/tests/gpu/libraries.sh"
rehearse=0
[ "${1:-}" != --rehearse ] || { rehearse=1 && shift; }
build=$(cd "${1:-$root/build}" && pwd)

skipped() {
    echo "skipped: $*"
    exit 77
}
[ "$rehearse" -eq 1 ] || [ "$(gpu_count)" -gt 0 ] || skipped "no NVIDIA GPU"
[ -x "$build/bin/ddprun" ] || skipped "no ddprun in $build/bin"
command -v g++ >/dev/null || skipped "no g++"

# ---- the torch of a Python: its version, whether it has CUDA, the ABI of its strings, folders of headers and of libraries ----
describe='
import torch, torch.utils.cpp_extension as extension
print(torch.__version__, torch.version.cuda or "none", int(torch._C._GLIBCXX_USE_CXX11_ABI))
print(*extension.include_paths())
print(*extension.library_paths())'
python=
for candidate in python3 /usr/bin/python3; do
    described=$("$candidate" -c "$describe" 2>/dev/null) || continue
    python=$candidate
    break
done
[ -n "$python" ] || skipped "no Python here has torch"
read -r version cuda abi < <(sed -n 1p <<<"$described")
[ "$rehearse" -eq 1 ] || [ "$cuda" != none ] || skipped "torch $version of $python has no CUDA"
read -ra include_folders < <(sed -n 2p <<<"$described")
read -ra library_folders < <(sed -n 3p <<<"$described")
[ "$rehearse" -eq 0 ] || include_folders+=(/usr/include/torch/csrc/api/include) # Debian's
includes=()
for folder in "${include_folders[@]}"; do
    includes+=(-isystem "$folder")
done
libraries=(-ltorch -ltorch_cpu -lc10)
for folder in "${library_folders[@]}"; do
    libraries+=("-L$folder" "-Wl,-rpath,$folder")
done
if [ "$cuda" != none ]; then
    libraries+=('-Wl,--no-as-needed' -ltorch_cuda -lc10_cuda)
    runtime=
    while read -r folder; do
        [ -e "$folder/cuda_runtime_api.h" ] || continue
        runtime=$folder
        break
    done < <(
        gpu_toolkits | sed 's,$,/include,'
        gpu_wheels | while read -r place; do printf '%s\n' "$place"/*/include; done
    )
    [ -n "$runtime" ] || skipped "no cuda_runtime_api.h in toolkits or Python wheels"
    includes+=(-isystem "$runtime")
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-torch-XXXXXX")
trap 'rm -rf "$work"' EXIT
cc -c -I"$root/samples" -D_GNU_SOURCE "$root/samples/common/parameter_file.c" -o "$work/parameter_file.o"
g++ -std=c++17 -O0 -D_GLIBCXX_USE_CXX11_ABI="$abi" "${includes[@]}" -I"$root/samples" -I"$root/interpose/include" \
    "$root/samples/torch/main.cpp" "$work/parameter_file.o" -o "$work/torch_digits" "${libraries[@]}"
echo "ok: samples/torch is built against torch $version (CUDA: $cuda)"

# ---- 2 ranks as one process ----
launch=("$build/bin/ddprun" --device softgpu)
limit=1e-5
if [ "$rehearse" -eq 0 ]; then
    gpu_libraries_find libcuda.so.1 libnccl.so.2 || skipped "no driver or no NCCL"
    launch=("$build/bin/ddprun" --device gpu --share-gpu --nccl "${gpu_library[libnccl.so.2]}")
    limit=1e-4
fi
train=("$work/torch_digits" --data "$root/samples/data/digits.csv" --epochs 2)
timeout 300 "${train[@]}" --save "$work/alone"
timeout 300 "${launch[@]}" -n 2 --check-every 1 --summary-json "$work/summary.json" "${train[@]}" --save "$work/of-%d" </dev/null
"$build/samples/compare" --quiet "$work/of-0" "$work/alone" "$limit"
echo "ok: 2 ranks end with the parameters of one process, within $limit"
cmp "$work/of-0" "$work/of-1"
echo "ok: both ranks end with the same bits"
overlapped=$(sed -n 's/^  "overlapped_steps": \([0-9]*\),$/\1/p' "$work/summary.json")
[ "$rehearse" -eq 1 ] || [ "${overlapped:-0}" -gt 0 ]
echo "ok: ${overlapped:-no} steps overlapped"
