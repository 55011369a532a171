#!/usr/bin/env bash
# real.sh BUILD [--table FILE] [--keep FOLDER] [PATTERN] - a soak: fifteen trainers after public ones (real/), each right once and with eight mistakes
# (-DMISTAKE=N), of which four stand beside a second deviation. An author wrote them from the manual alone, and their truth beforehand
# (real/truth.txt: place, cause, second deviation). `ddprun check` accuses no right one, and calls no wrong one equal.
#
# FILE gets a line for each program: "NAME MISTAKE exit-code: what check says first"; a reader holds it against truth.txt. A program that has
# a line is not tried again, so a soak that was stopped goes on. FOLDER gets all that check says, in NAME.MISTAKE, with the processor time of the
# check and of one process alone in the last lines. PATTERN: only "NAME MISTAKE" that match.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/lib.sh"
real=$(cd "$(dirname "$0")" && pwd)/real
include=$(cd "$(dirname "$0")/../../../interpose/include" && pwd)
table=$work/table keep=$work/keep
shift
while [[ ${1:-} == --* ]]; do
    case $1 in
        --table) table=$(realpath -m -- "${2:?real.sh: --table wants a file}") ;;
        --keep) keep=$(realpath -m -- "${2:?real.sh: --keep wants a folder}") ;;
        *) echo "real.sh: $1 is no option" >&2 && exit 2 ;;
    esac
    shift 2
done
pattern=${1:-.}
mkdir -p "$keep"
touch "$table"
TIMEFORMAT='processor time: %U + %S s'

judge() { # NAME MISTAKE
    local name=$1 mistake=$2 first
    check "$name $mistake: it compiles" "$build/bin/softgpu-cc" -Xcompiler -O0 -g -DMISTAKE="$mistake" -I "$include" "$real/$name.cu" \
        -o "$work/$name" -lcublas
    mkdir -p "$work/in"
    cd "$work/in" || exit 1
    { time timeout 300 "$ddprun" --device softgpu check -n 2 "$work/$name" >"$work/said" 2>&1 && code=0 || code=$?; } 2>"$work/spent"
    { time timeout 300 "$ddprun" --device softgpu -n 1 "$work/$name" >/dev/null 2>&1; } 2>"$work/spent_alone"
    cd / && rm -rf "$work/in"
    first=$(grep -m 1 -E '^(different|equal|not comparable)' "$work/said" || head -n 1 "$work/said")
    printf '%s %s %s: %s\n' "$name" "$mistake" "$code" "$first" >>"$table"
    cat "$work/said" "$work/spent" "$work/spent_alone" >"$keep/$name.$mistake"
}

for source in "$real"/*.cu; do
    name=$(basename "$source" .cu)
    for mistake in {0..8}; do
        grep -qE "$pattern" <<<"$name $mistake" || continue
        grep -q "^$name $mistake " "$table" || judge "$name" "$mistake"
    done
done
check "no right program is accused: $(grep -E '^[a-z]+ 0 [^0]' "$table" | head -n 3)" [ "$(grep -cE '^[a-z]+ 0 [^0]' "$table")" -eq 0 ]
check "no wrong program is equal: $(grep -E '^[a-z]+ [1-8] 0' "$table" | cut -d ' ' -f 1,2 | head -n 9 | xargs)" \
    [ "$(grep -cE '^[a-z]+ [1-8] 0' "$table")" -eq 0 ]
finish
