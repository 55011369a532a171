#!/usr/bin/env bash
# tidy.sh BUILD - clang-tidy, as .clang-tidy sets it up, has nothing to say, nor has clang about what is compiled. Called by
# tests/run.sh. The analyzer, which takes two thirds of the time and more, the stand-in, and a file's second compilation with other
# definitions run with DDPRUN_SOAK=1 (bash tests/run.sh --soak --filter lint/tidy).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
build=${1:-build}
commands=$build/compile_commands.json
command -v clang-tidy >/dev/null || skip "no clang-tidy"
[ -e "$commands" ] || complain "$commands does not exist: configure first"
# Many files a run: the start of clang-tidy takes a third of the time. The analyzer carries state from one file to the next.
left_out='|softgpu' together=24 checks=(--checks='clang-diagnostic-*,-clang-analyzer-*')
[ "${DDPRUN_SOAK:-0}" != 1 ] || left_out='' together=1 checks=(--checks='clang-diagnostic-*')
# The C files of the product; what the build generates is not read by people, and tests are held to warnings and sanitizers.
mapfile -t files < <(sed -n 's/^ *"file": "\(.*\.c\)".*/\1/p' "$commands" | grep "^$PWD/" | grep -vE "^$PWD/(build|tests$left_out)" | sort -u)
[ ${#files[@]} -gt 0 ] || complain "no file found in $commands"
# Compiler warnings are findings, too (clang.sh).
for option in -Wthread-safety -Wno-thread-safety-attributes -Wno-unused-command-line-argument -Wno-ignored-optimization-argument; do
    checks+=("--extra-arg=$option")
done
# What gcc has read once for many files (ddprun_parse_once) clang reads with each.
folder=$(mktemp -d)
at_exit 'rm -rf "$folder"'
sed -E 's/ -Winvalid-pch -include [^ ]*cmake_pch\.h//' "$commands" | awk -F '"file": ' -v RS='\n},?\n' -v soak="${DDPRUN_SOAK:-0}" '
    NF == 2 && (soak == 1 || !seen[$2]++) { print (n++ ? "," : "[") substr($0, index($0, "{")) "}" } END { print "]" }' >"$folder/compile_commands.json"
# "N warnings generated" counts what was found in system headers and dropped.
printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -n "$together" clang-tidy --quiet -p "$folder" "${checks[@]}" 2>&1 |
    { grep -v '^[0-9]* warnings\? generated\.$' || true; } || complain "^ clang-tidy"
finish "${#files[@]} files with $(clang-tidy --version | grep -o 'LLVM version.*')"
