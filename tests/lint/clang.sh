#!/usr/bin/env bash
# clang.sh BUILD - clang compiles without a warning what gcc compiled, and finds who has which lock (interpose/engine/core/capability.h). Called by
# tests/run.sh; gcc's part is the build itself. What tidy.sh reads it compiles with the same warnings. That, the tests, which have no such locks, and a file's
# second compilation with other definitions are compiled with DDPRUN_SOAK=1 (bash tests/run.sh --soak --filter lint/clang).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
build=${1:-build}
commands=$build/compile_commands.json
command -v clang >/dev/null || skip "no clang"
[ -e "$commands" ] || complain "$commands does not exist: configure first"

# One compilation a line: folder, then the command with the compiler replaced and no output. The build writes one field a line.
# Assembly has no warnings, and what the build generates is compiled as it is.
# What gcc has read once for many files (ddprun_parse_once) clang reads with each.
lines=$(sed -n 's/^ *"directory": "\(.*\)",$/D \1/p; s/^ *"command": "\(.*\)",$/C \1/p' "$commands" | sed 's/\\"/"/g; s/\\\\/\\/g' |
    sed -E '/ -x c-header /d; s/ -Winvalid-pch -include [^ ]*cmake_pch\.h//' |
    awk '/^D / { folder = substr($0, 3) }
         /^C / && / -c [^ ]*\.(c|cc|cpp)$/ {
             command = substr($0, 3)
             compiler = command ~ /\.c$/ ? "clang" : "clang++"
             sub(/^[^ ]+/, compiler " -fsyntax-only -Wthread-safety -Wno-thread-safety-attributes -Wno-unused-command-line-argument -Wno-ignored-optimization-argument", command)
             sub(/ -o [^ ]+/, "", command)
             print "cd " folder " && " command
         }')
[ "${DDPRUN_SOAK:-0}" = 1 ] || lines=$(grep -v " -c $PWD/tests/" <<<"$lines" | awk '!seen[$NF]++' || true)
if [ "${DDPRUN_SOAK:-0}" != 1 ] && command -v clang-tidy >/dev/null; then
    lines=$(grep -vE " -c $PWD/(base|bucketing|comm|interpose|launcher|tools)/[^ ]*\.c\$" <<<"$lines" || true)
fi
[ -n "$lines" ] || complain "no compilation found in $commands"
printf '%s\n' "$lines" | tr '\n' '\0' | xargs -0 -P "$(nproc)" -I '{}' sh -c '{}' 2>&1 || complain "^ clang"
finish "$(wc -l <<<"$lines") compilations with $(clang --version | head -n 1)"
