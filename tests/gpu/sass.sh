#!/usr/bin/env bash
# sass.sh BUILD - what nvcc makes of the kernels that move and look at gradients (comm/kernels/) and state, for sm_80, sm_90 and sm_100: four
# loads of 16 bytes are under way before the first store of each main loop, no local memory, at most 64 registers. One load at a
# time is half of memory's bandwidth. Needs nvcc and nvdisasm: on the PATH, or in DDPRUN_NVDISASM.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
source "$root/tests/lib/lib.sh"
nvcc=$(command -v nvcc || true)
nvdisasm=${DDPRUN_NVDISASM:-$(command -v nvdisasm || true)}
[ -n "$nvcc" ] || skip "no nvcc of CUDA 13"
[ -n "$nvdisasm" ] || skip "no nvdisasm (of the CUDA toolkit, or the wheel nvidia-cuda-nvdisasm)"
work=$(mktemp -d)
at_exit 'rm -rf "$work"'

kernels=0
for which in {80,90,100}:{comm/kernels,tools/plan/trainer/kernels}; do
    architecture=${which%:*}
    "$nvcc" -cubin -arch="sm_$architecture" -O3 -Xptxas -v -I"$root" "$root/${which#*:}/kernels.cu" -o "$work/cubin" 2>"$work/ptxas"
    "$nvdisasm" -c "$work/cubin" >"$work/sass"
    # NAME LOADS-IN-A-ROW LOCAL-ACCESSES of each kernel
    awk '/^\.text\./ { sub(/^\.text\./, ""); sub(/:.*/, ""); name = $0; loads[name] = 0; row = 0 }
        match($0, /\*\/ +(@!?U?P[0-9]+ +)?[A-Z0-9_.]+/) {
            operation = substr($0, RSTART, RLENGTH); sub(/.* /, "", operation)
            if (operation ~ /^LDG?\.E.*128/ && ++row > loads[name]) loads[name] = row
            if (operation ~ /^STG?\.E/) row = 0
            if (operation ~ /^(LDL|STL)/) ++local[name]
        }
        END { for (name in loads) print name, loads[name], local[name] + 0 }' "$work/sass" >"$work/loads"
    while read -r name loads local; do
        case $name in ddprun_pack* | ddprun_unpack* | ddprun_scale* | ddprun_nonfinite | ddprun_state_[kca]*) ;; *) continue ;; esac
        registers=$(awk -v name="$name" '/Compiling entry function/ { here = index($0, "\047" name "\047") } here && /Used/ {
            match($0, /Used [0-9]+/); print substr($0, RSTART + 5, RLENGTH - 5); exit }' "$work/ptxas")
        check "$name, sm_$architecture: $loads loads of 16 bytes in a row" test "$loads" -ge 4
        check "$name, sm_$architecture: $local accesses of local memory" test "$local" -eq 0
        most=64
        case $name in ddprun_state_apply | *_float64) most=72 ;; esac # three things of each element; two registers for each number
        check "$name, sm_$architecture: $registers registers" test "${registers:-$((most + 1))}" -le "$most"
        kernels=$((kernels + 1))
    done <"$work/loads"
done
check "kernels are found" test "$kernels" -eq 72
finish
