#!/usr/bin/env bash
# architectures.sh BUNDLE - each program of the bundle that has device code has it for sm_80, for sm_90 and as PTX, in the shape
# that its name says: cudart shared or inside. Called by rehearse.sh; needs cuobjdump of a toolkit.
set -euo pipefail
bundle=${1:?usage: architectures.sh BUNDLE}
source "$(dirname "${BASH_SOURCE[0]}")/../lib/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/libraries.sh"
cuobjdump=$(command -v cuobjdump || { gpu_toolkits && gpu_wheels | sed 's,$,/cu13,'; } | while read -r place; do
    [ ! -x "$place/bin/cuobjdump" ] || printf '%s\n' "$place/bin/cuobjdump"
done | sed -n 1p)

programs=0
for program in "$bundle"/build/gpu/*; do
    needs=$(readelf -d "$program" | grep -c 'NEEDED.*libcudart' || true)
    case $program in
    *_static) [ "$needs" -eq 0 ] || complain "${program##*/} wants a shared cudart" ;;
    *) [ "$needs" -eq 1 ] || complain "${program##*/} does not want the shared cudart" ;;
    esac
    programs=$((programs + 1))
    [ -n "$cuobjdump" ] && readelf -SW "$program" | grep '\.nv_fatbin' >/dev/null || continue
    found=$("$cuobjdump" --list-elf --list-ptx "$program" | grep -Eo 'sm_[0-9]+\.(cubin|ptx)' | sort -u | tr '\n' ' ')
    [ "$found" = "sm_80.cubin sm_90.cubin sm_90.ptx " ] || complain "${program##*/} has $found"
done
[ "$programs" -gt 0 ] || complain "no program in $bundle"
[ -n "$cuobjdump" ] || [ "$failures" -gt 0 ] || skip "no cuobjdump (of the CUDA toolkit) to list the architectures"
finish "$programs programs for sm_80, sm_90 and as PTX"
