#!/usr/bin/env bash
# architectures.sh BUNDLE - each program of the bundle that has device code has it for sm_80, for sm_90 and as PTX, in the shape
# that its name says: cudart shared or inside; and so have ddprun's own kernels, those for drivers of CUDA 12 as PTX for Volta. Called by rehearse.sh.
set -euo pipefail
bundle=${1:?usage: architectures.sh BUNDLE}
source "$(dirname "${BASH_SOURCE[0]}")/../lib/lib.sh"
images=$(dirname "${BASH_SOURCE[0]}")/../install/images.py

# has FILE WANTED: its images, each kind once
has() {
    local found
    found=$(python3 "$images" "$1" | cut -d ' ' -f 1,2 | sort -u | paste -sd,)
    [ "$found" = "$2" ] || complain "${1##*/} has ${found:-nothing}, not $2"
}

programs=0
for program in "$bundle"/build/gpu/*; do
    needs=$(readelf -d "$program" | grep -c 'NEEDED.*libcudart' || true)
    case $program in # libwrap_nccl.so looks it up as it is used
    *_static | *.so) [ "$needs" -eq 0 ] || complain "${program##*/} wants a shared cudart" ;;
    *) [ "$needs" -eq 1 ] || complain "${program##*/} does not want the shared cudart" ;;
    esac
    programs=$((programs + 1))
    ! readelf -SW "$program" | grep '\.nv_fatbin' >/dev/null || has "$program" "elf 80,elf 90,ptx 80"
done
[ "$programs" -gt 0 ] || complain "no program in $bundle"
for kernels in ddprun{,-plan}-kernels; do
    has "$bundle/build/lib/$kernels.fatbin" "elf 80,elf 90,ptx 80"
    [ "$(cat "$bundle/build/gpu.cuda")" -lt 13 ] || has "$bundle/build/lib/$kernels-cuda12.fatbin" "elf 80,elf 90,ptx 70"
done
finish "$programs programs for sm_80, sm_90 and as PTX"
