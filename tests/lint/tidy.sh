#!/usr/bin/env bash
# tidy.sh BUILD - clang-tidy, as .clang-tidy sets it up, has nothing to say, nor has clang about what is compiled. Called by tests/run.sh. The analyzer, which takes two thirds
# of the time and more, and the stand-in run with DDPRUN_SOAK=1 (bash tests/run.sh --soak --filter lint/tidy).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib.sh
build=${1:-build}
commands=$build/compile_commands.json
command -v clang-tidy >/dev/null || skip "no clang-tidy"
[ -e "$commands" ] || complain "$commands does not exist: configure first"
left_out='|softgpu'
[ "${DDPRUN_SOAK:-0}" != 1 ] || left_out=
# The C files of the product; what the build generates is not read by people, and tests are held to warnings and sanitizers.
mapfile -t files < <(sed -n 's/^ *"file": "\(.*\.c\)".*/\1/p' "$commands" | grep "^$PWD/" | grep -vE "^$PWD/(build|tests$left_out)" | sort -u)
[ ${#files[@]} -gt 0 ] || complain "no file found in $commands"
# Compiler warnings are findings, too (clang.sh).
checks=(--checks='clang-diagnostic-*,-clang-analyzer-*')
[ "${DDPRUN_SOAK:-0}" != 1 ] || checks=(--checks='clang-diagnostic-*')
for option in -Wthread-safety -Wno-thread-safety-attributes -Wno-unused-command-line-argument -Wno-ignored-optimization-argument; do
    checks+=("--extra-arg=$option")
done
# What gcc has read once for many files (ddprun_parse_once) clang reads with each.
folder=$(mktemp -d)
at_exit 'rm -rf "$folder"'
sed -E 's/ -Winvalid-pch -include [^ ]*cmake_pch\.h//' "$commands" >"$folder/compile_commands.json"
# One file a run: the analyzer carries state from one file to the next.
# "N warnings generated" counts what was found in system headers and dropped.
printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -n 1 clang-tidy --quiet -p "$folder" "${checks[@]}" 2>&1 |
    { grep -v '^[0-9]* warnings\? generated\.$' || true; } || complain "^ clang-tidy"
finish "${#files[@]} files with $(clang-tidy --version | grep -o 'LLVM version.*')"
