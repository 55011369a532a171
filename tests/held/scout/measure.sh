#!/usr/bin/env bash
# [SERIES=../scout2] measure.sh BUILD [NAME...] - each trainer of this folder by `ddprun scout --patch`: the patch is applied, the program built again, and
# checked with two ranks. One row each: exit codes of scout, patch, the build and check, the words on scout's terminal, and check's
# verdict, or the reason that there is none. KEEP=FOLDER keeps what was printed, and the patch. truth.txt has what a patch can do.
set -euo pipefail
build=$(cd "${1:?measure.sh: which build folder?}" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/${SERIES:-.}"
shift
include=$(cd ../../../interpose/include && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-held-XXXXXX")
trap 'rm -rf "$work"' EXIT
[ $# -gt 0 ] || set -- */
printf '#!/bin/sh\nexec "%s" -I "%s" "$@"\n' "$build/bin/softgpu-cc" "$include" >"$work/nvcc"
chmod +x "$work/nvcc"

# in_program COMMAND...: in the program's folder, with its output; prints the exit code.
in_program() {
    local code=0
    (cd "$work/program" && "$@" >"$work/out" 2>"$work/err" </dev/null) || code=$?
    printf '%d' "$code"
}

keep() {
    [ -z "${KEEP:-}" ] || cat "$work/out" "$work/err" >"$KEEP/$name.$1"
}

printf '%-20s %5s %5s %5s %5s %5s  %s\n' program scout words patch build check verdict
for name in "$@"; do
    name=${name%/} patched=- built=- checked=-
    rm -rf "$work/program"
    cp -r "$name" "$work/program"
    [ "$(NVCC=$work/nvcc in_program sh build.sh)" -eq 0 ] || printf '%s does not build: %s\n' "$name" "$(tail -n 1 "$work/err")"
    scouted=$(in_program timeout 300 "$build/bin/ddprun" --device softgpu scout --patch change.diff ./train)
    keep scout
    words=$(wc -w <"$work/out") why=$(tail -n 1 "$work/err")
    if [ -e "$work/program/change.diff" ]; then
        [ -z "${KEEP:-}" ] || cp "$work/program/change.diff" "$KEEP/$name.diff"
        patched=$(in_program patch -p0 -s -i change.diff)
        built=$(NVCC=$work/nvcc in_program sh build.sh)
        why=$(grep -m 1 error "$work/err" || true)
        if [ "$built" -eq 0 ]; then
            checked=$(in_program timeout 300 "$build/bin/ddprun" check -n 2 --device softgpu --share-gpu ./train)
            keep check
            why=$(grep -E '^(equal|different|not comparable)' "$work/out" "$work/err" -h | head -n 1 || true)
            [ -n "$why" ] || why=$(tail -n 1 "$work/err")
        fi
    fi
    printf '%-20s %5s %5s %5s %5s %5s  %s\n' "$name" "$scouted" "$words" "$patched" "$built" "$checked" "$(cut -c 1-260 <<<"$why")"
done
