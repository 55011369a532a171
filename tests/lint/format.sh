#!/usr/bin/env bash
# format.sh - all C, C++ and CUDA sources have the committed style. Called by tests/run.sh; `--write` formats them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
version=14 # another version breaks some lines elsewhere
tool=$(command -v "clang-format-$version" || command -v clang-format || true)
[ -n "$tool" ] && "$tool" --version | grep -q "version $version\." || skip "no clang-format $version"
mapfile -t files < <(find base bucketing comm interpose launcher tools softgpu samples tests -type f \
    \( -name '*.c' -o -name '*.h' -o -name '*.cc' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) | sort)
[ "${1:-}" != --write ] || exec "$tool" -i "${files[@]}"
wrong=$("$tool" --dry-run -Werror "${files[@]}" 2>&1 | grep 'error:' | cut -d: -f1 | sort | uniq -c) || true
[ -z "$wrong" ] || complain "$(awk '{ print $2 ": " $1 " places; bash tests/lint/format.sh --write fixes them" }' <<<"$wrong")"
finish "${#files[@]} files have the style"
