#!/usr/bin/env bash
# digits_inert.sh FOLDER - without ddprun, the annotated trainer prints and saves byte for byte what the plain one does; a run repeats byte
# for byte; another seed does not. FOLDER holds digits, digits_plain and compare.
set -euo pipefail
folder=$1
data=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/samples/data/digits.csv
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# train NAME PROGRAM SEED: stdout and parameters into NAME.out and NAME.params.
train() {
    timeout -k 1 100 "$folder/$2" --data "$data" --steps 60 --log-every 7 --seed "$3" --save "$work/$1.params" \
        </dev/null >"$work/$1.out" 2>"$work/$1.err" || {
        cat "$work/$1.err"
        exit 1
    }
}
train plain digits_plain 1
train again digits_plain 1
train annotated digits 1
train other digits_plain 2

cmp "$work/plain.out" "$work/again.out"
cmp "$work/plain.params" "$work/again.params"
cmp "$work/plain.out" "$work/annotated.out"
cmp "$work/plain.params" "$work/annotated.params"
grep -q '^test accuracy 0\.[89]' "$work/plain.out" || {
    echo "60 steps should teach most of it:"
    cat "$work/plain.out"
    exit 1
}

# The comparison must be able to say no, or the lines above show nothing.
if cmp -s "$work/plain.params" "$work/other.params" ||
    "$folder/compare" --quiet "$work/plain.params" "$work/other.params" 1e-3 >/dev/null; then
    echo "another seed gave the same parameters"
    exit 1
fi
"$folder/compare" --quiet "$work/plain.params" "$work/again.params" 0
