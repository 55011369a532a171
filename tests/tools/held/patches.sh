#!/usr/bin/env bash
# patches.sh BUILD [--scores FILE] [PATTERN] - a soak: each program of scout in the corpus (corpus.sh) gets the lines of `ddprun scout --patch`, with
# nothing added by hand. The patch applies, the program is built, alone it prints what it printed before, and 2 ranks of it are equal by rounds to one
# process that plays their turns. A third of the programs, drawn by name, has 3 ranks, too.
#
# FILE has a line for each program: "SERIES/PROGRAM outcome exit by-hand made alone check2 share2 check3 share3 reason". A program that has a line is
# not tried again: a soak that was stopped goes on. PATTERN: only names that match it.
#
#   auto       equal, with nothing to be done by hand, and without ddp_made
#   made       equal, with nothing to be done by hand; lines call memory ddp_made[]
#   hand       scout asks for lines by hand ("by hand:"), or writes no patch for gradients that it has found
#   refused    scout finds no gradients, and says why
#   different  the patch does not apply, the program does not compile, ends badly, or differs
#
# The shares are those of rank 0 in the operations of regions, in percent: work on memory that a batch allocates itself is always made.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/corpus.sh"
shift
scores=$work/scores
if [ "${1:-}" = --scores ]; then
    scores=$(realpath "$2")
    shift 2
fi
pattern=${1:-.}
seconds=${DDPRUN_HELD_SECONDS:-300} # of each run
tree=$(cd "$(dirname "$0")/../../.." && pwd)
printf '#!/bin/sh\nexec "%s" -Xcompiler -O0 -I "%s" -I "%s" "$@"\n' "$build/bin/softgpu-cc" "$tree/interpose/include" "$tree/tools/scout/include" >"$work/nvcc"
chmod +x "$work/nvcc"
export NVCC=$work/nvcc
touch "$scores"

# told COMMAND...: runs it in the program's folder; output in $program/../{out,err}; prints the exit code.
told() {
    local code=0
    (cd "$program" && timeout -k 5 "$seconds" "$@" >../out 2>../err </dev/null) || code=$?
    echo "$code"
}

# has_third NAME: whether the program is of the third that has 3 ranks; with DDPRUN_HELD_THREE=all each has.
has_third() {
    [ "${DDPRUN_HELD_THREE:-drawn}" = all ] || [ $(($(cksum <<<"$1" | cut -d ' ' -f 1) / 8 % 3)) -eq 0 ]
}

# share FILE RANKS: the part of the operations of regions that rank 0 makes, in percent; "-" where there is no figure. The first batch is made by all.
share() {
    python3 - "$1" <<'PY' 2>/dev/null || echo -
import json, sys
summary = json.load(open(sys.argv[1]))
made, left = summary["turn_operations"], summary["turn_left_out"]
print(100 * made // (made + left))
PY
}

# ranked RANKS: check's exit code and the share, in `checked` and `part`; why they are not right, in `why`.
ranked() {
    local ranks=$1 code
    part=-
    code=$(told "$ddprun" -n "$ranks" --device softgpu --share-gpu --summary-json ../turns.json ./train)
    checked=run$code
    [ "$code" -eq 0 ] || why=$(grep -m 1 -E '^ddprun: ' "$program/../err" || tail -n 1 "$program/../err")
    [ "$code" -eq 0 ] || return 1
    part=$(share "$program/../turns.json")
    checked=$(told "$ddprun" check -n "$ranks" --device softgpu --share-gpu ./train)
    cp "$program/../out" "$program/../check.$ranks"
    cat "$program/../err" >>"$program/../check.$ranks"
    [ "$checked" -eq 0 ] || why=$(grep -h -m 1 -E '^(different|not comparable)' "$program/../out" "$program/../err" || tail -n 1 "$program/../err")
    [ "$checked" -eq 0 ]
}

# patched: applies the patch to the program, and builds it; why it does not, in `why`.
patched() {
    if [ "$(told patch -p0 -s --fuzz=0 -i ../change.diff)" -ne 0 ]; then
        why="does not apply: $(tail -n 1 "$program/../out")"
        return 1
    fi
    [ "$(told sh build.sh)" -eq 0 ] && return
    why="does not compile: $(grep -m 1 error "$program/../err" || tail -n 1 "$program/../err")"
    return 1
}

# scored NAME: the program's line.
scored() {
    local name=$1 exit=- hand=- made=- alone=- one=- two=- three=- four=- why=- outcome=different checked part
    program=$work/programs/${1//\//.}/program
    mkdir -p "${program%/*}"
    rm -rf "$program"
    cp -r --no-preserve=mode "$held/$name" "$program"
    [ "$(told sh build.sh)" -eq 0 ] || why="does not build: $(tail -n 1 "$program/../err")"
    told ./train >"$program/../plain.code"
    cp "$program/../out" "$program/../plain"
    exit=$(told "$ddprun" --device softgpu scout --patch ../change.diff ./train)
    cp "$program/../out" "$program/../scout"
    cat "$program/../err" >>"$program/../scout"
    hand=$(grep -c '^by hand' "$program/../scout")
    if [ ! -e "$program/../change.diff" ]; then
        outcome=refused
        ! grep -qE '^(proved|a launch computes)' "$program/../scout" || outcome=hand
        why=$(tail -n 1 "$program/../scout")
    else
        made=$(grep -c '^+.*ddp_made\[' "$program/../change.diff")
        if patched; then
            alone=$(told ./train)
            ! cmp -s "$program/../plain" "$program/../out" || alone=same
            if ranked 2; then
                outcome=auto
                [ "$made" -eq 0 ] || outcome=made
            fi
            one=$checked two=$part
            if [ "$outcome" != different ] && has_third "$name"; then
                ranked 3 || outcome=different
                three=$checked four=$part
            fi
        fi
        [ "$hand" -eq 0 ] || outcome=hand
    fi
    printf '%s %s %s %s %s %s %s %s %s %s %s\n' "$name" "$outcome" "$exit" "$hand" "$made" "$alone" "$one" "$two" "$three" "$four" "$(cut -c 1-300 <<<"$why")"
    [ -z "${KEEP:-}" ] || { mkdir -p "$KEEP/${name//\//.}" && cp "$program"/../{scout,change.diff,check.*} "$KEEP/${name//\//.}" 2>/dev/null; }
    rm -rf "${program%/*}"
}

(cd "$held" && printf '%s\n' scout*/*/) | sed 's|/$||' | grep -E -e "$pattern" | while read -r name; do
    printf '%s %s\n' "$(cksum <<<"$name")" "$name"
done | sort -n | cut -d ' ' -f 3 >"$work/chosen" # drawn by name: so the part that is scored stands for all
check 'there are programs to score' test -s "$work/chosen"
while read -r name; do
    grep -q "^$name " "$scores" || { scored "$name" >"$work/line" && cat "$work/line" >>"$scores"; }
    read -r _ outcome _ _ _ _ _ _ _ _ why < <(grep -m 1 "^$name " "$scores")
    [ "$outcome" != different ] || echo "# $name: $why"
done <"$work/chosen"
awk '
    NR == FNR { wanted[$1] = 1; next }
    $1 in wanted { ++count[$2]; ++all }
    END {
        found = all - count["refused"]
        equal = count["auto"] + count["made"]
        printf "# %d programs: gradients found in %d; automatic and equal %d, %d of them with ddp_made; by hand %d; refused %d; different %d\n",
            all, found, equal, count["made"], count["hand"], count["refused"], count["different"]
        exit equal * 10 < found * 8
    }' "$work/chosen" "$scores"
check 'at least 80 in 100 of those with gradients are automatic and equal' test $? -eq 0
finish
