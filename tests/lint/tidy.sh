#!/usr/bin/env bash
# tidy.sh BUILD - clang-tidy, as .clang-tidy sets it up, has nothing to say, nor has clang about what is compiled. Called by
# tests/run.sh. The analyzer, which takes two thirds of the time and more, the stand-in, and a file's second compilation with other
# definitions run with DDPRUN_SOAK=1 (bash tests/run.sh --soak --filter lint/tidy).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
source tests/lib/compile_commands.sh
build=${1:-build}
commands=$build/compile_commands.json
command -v clang-tidy >/dev/null || skip "no clang-tidy"
[ -e "$commands" ] || complain "$commands does not exist: configure first"
# Many files a run: the start of clang-tidy takes a third of the time. The analyzer carries state from one file to the next.
left_out=softgpu together=24 checks=(--checks='clang-diagnostic-*,-clang-analyzer-*')
[ "${DDPRUN_SOAK:-0}" != 1 ] || left_out='' together=1 checks=(--checks='clang-diagnostic-*')
mapfile -t files < <(product_sources "$commands" | grep -vE "^$PWD/($left_out)/")
[ ${#files[@]} -gt 0 ] || complain "no file found in $commands"
# Compiler warnings are findings, too (clang.sh).
for option in -Wthread-safety -Wno-thread-safety-attributes -Wno-unused-command-line-argument -Wno-ignored-optimization-argument; do
    checks+=("--extra-arg=$option")
done
folder=$(mktemp -d)
at_exit 'rm -rf "$folder"'
clang_commands "$commands" "${DDPRUN_SOAK:-0}" >"$folder/compile_commands.json"
# "N warnings generated" counts what was found in system headers and dropped.
printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -n "$together" clang-tidy --quiet -p "$folder" "${checks[@]}" 2>&1 |
    { grep -v '^[0-9]* warnings\? generated\.$' || true; } || complain "^ clang-tidy"
finish "${#files[@]} files with $(clang-tidy --version | grep -o 'LLVM version.*')"
