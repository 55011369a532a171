#!/usr/bin/env bash
# [SERIES=../check2] measure.sh BUILD [NAME...] - each annotated trainer of this folder by `ddprun check -n N` (N = $RANKS, 2). One row each: the exit code,
# whether the verdict names a line and an operand of truth.txt, and its first sentence.
# KEEP=FOLDER keeps what check printed. A person reads whether a sentence is true.
set -euo pipefail
build=$(cd "${1:?measure.sh: which build folder?}" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/${SERIES:-.}"
shift
ranks=${RANKS:-2}
include=$(cd ../../../interpose/include && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-held-XXXXXX")
trap 'rm -rf "$work"' EXIT
if [ $# -eq 0 ]; then
    mapfile -t names < <(sed -n 's/^\([a-z0-9_]*\)\.cu; .*/\1/p' truth.txt)
    set -- "${names[@]}"
fi

# Its sentences, without the table.
verdict() {
    grep -qE '^(equal|different|not comparable)' "$work/out" || { tail -n 1 "$work/err"; return; }
    sed -nE '/^(equal|different|not comparable)/,$p' "$work/out"
}

printf '%-36s %4s %5s %8s  %s\n' program exit line operand 'first line of the verdict'
for name in "$@"; do
    "$build/bin/softgpu-cc" -O2 -g -I "$include" "$name.cu" -o "$work/$name" -lcublas >"$work/out" 2>&1
    code=0
    (cd "$work" && timeout 400 "$build/bin/ddprun" check -n "$ranks" --device softgpu --share-gpu --timeout 120 --progress off "./$name") \
        >"$work/out" 2>"$work/err" </dev/null || code=$?
    truth=$(grep "^$name\.cu; " truth.txt)
    lines=$(grep -oE '; line:? [0-9]+( or [0-9]+)*' <<<"$truth" | grep -oE '[0-9]+' | tr '\n' ' ' || true)
    operand=$(grep -oE '; operand: [^;]*' <<<"$truth" | cut -c 12- || true)
    named_line=- named_operand=-
    if [ -n "$lines" ]; then
        named_line=no named_operand=no
        for line in $lines; do
            ! verdict | grep -q "$name.cu:$line\b" || named_line=yes
        done
        for word in $(grep -oE '[A-Za-z_][A-Za-z0-9_.]+' <<<"$operand" | grep -vxE 'kernel|argument|arguments|buffer|output|outputs|and|or|from|the|second|source|into'); do
            ! verdict | grep -qw -- "$word" || named_operand=yes
        done
    fi
    printf '%-36s %4d %5s %8s  %s\n' "$name" "$code" "$named_line" "$named_operand" "$(verdict | head -n 1 | cut -c 1-300)"
    [ -z "${KEEP:-}" ] || cat "$work/out" "$work/err" >"$KEEP/$name.out"
done
