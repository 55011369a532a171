#!/usr/bin/env bash
# run.sh BUILD [--seconds N] [--only TARGET] - feeds each parser of what others wrote (main.c) with its corpus and what the fuzzer makes of
# it, for N seconds each; a finding fails, and its bytes stay in BUILD/tests/fuzz. Without --seconds it is 1,000 inputs of each, or a second.
set -uo pipefail
usage() {
    printf 'Usage: bash tests/fuzz/run.sh BUILD [--seconds N] [--only TARGET]\n' >&2
    exit 2
}
[ $# -ge 1 ] || usage
build=$(cd "$1" && pwd) || exit 2
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/../..
fuzz=$build/tests/fuzz/fuzz
seconds=
only=
while [ $# -ge 2 ]; do
    case $1 in
    --seconds) seconds=$2 ;;
    --only) only=$2 ;;
    *) usage ;;
    esac
    shift 2
done
[ $# -eq 0 ] || usage
if [ ! -x "$fuzz" ]; then
    printf 'skipped: no fuzzer in %s: clang with libFuzzer is wanted (Debian: clang and libclang-rt-14-dev), and no other sanitizer\n' "$build"
    exit 77
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-fuzzer-XXXXXX")
trap 'rm -rf "$work"' EXIT
failures=0
"$fuzz" "--seeds=$work" >/dev/null 2>&1 || exit 1
mapfile -t targets < <(if [ -n "$only" ]; then echo "$only"; else "$fuzz" --list; fi)
[ ${#targets[@]} -gt 0 ] || exit 1
runs=-1
[ -n "$seconds" ] || seconds=1 runs=1000
# words TARGET: a dictionary of what its parser looks for, read from the parser's source.
words() {
    case $1 in
    options) sed -n 's/^OPTION("\([^"]*\)".*/"--\1"/p' "$root/launcher/options/options.def" ;;
    substitute) grep -oE '"\{[a-z_]+\}"' "$root/launcher/options/substitute.c" ;;
    trace)
        grep -oE '"[a-z_]+"' "$root/tools/trace/read.c" | sort -u | sed 's/"\(.*\)"/"\\"\1\\":"/'
        printf '"%s"\n' true false -1e300 9223372036854775807 '{}' '[]' '\x0a'
        ;;
    esac
}
for target in "${targets[@]}"; do
    words "$target" >"$work/words"
    dictionary=()
    [ ! -s "$work/words" ] || dictionary=("-dict=$work/words")
    corpus=()
    [ ! -e "$here/corpus/$target" ] || corpus=("$here/corpus/$target")
    mkdir -p "$work/$target"
    code=0 bytes=8192
    [ "$target" != status ] || bytes=49152 # records of two ranks
    TMPDIR=$work timeout -k 5 $((seconds + 240)) "$fuzz" "--target=$target" "-max_total_time=$seconds" "-runs=$runs" "-max_len=$bytes" -timeout=60 \
        -rss_limit_mb=4096 -use_value_profile=1 "-artifact_prefix=$build/tests/fuzz/$target-" "${dictionary[@]}" \
        "$work/$target" "${corpus[@]}" </dev/null >"$work/log" 2>&1 || code=$?
    found=$(sed -n 's/.*Test unit written to //p' "$work/log" | head -n 1)
    if [ "$code" -eq 0 ]; then
        printf 'ok - fuzz %s\n# %s of %s\n' "$target" "$(sed -n 's/^Done //p' "$work/log")" "$target"
    else
        failures=$((failures + 1))
        printf 'not ok - fuzz %s (exit code %s: %s; again: %s --target=%s %s)\n' "$target" "$code" \
            "$(grep -E -m 1 '^fuzz: |ERROR: |runtime error: ' "$work/log")" "$fuzz" "$target" "$found"
        tail -n 40 "$work/log" | sed 's/^/    /'
    fi
done
exit $((failures > 0))
