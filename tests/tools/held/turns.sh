#!/usr/bin/env bash
# turns.sh BUILD [PATTERN] [--table FILE] - a soak: programs of the corpus (corpus.sh; turns.txt lists them) take turns, by the lines that
# `ddprun scout --patch` writes, and where it leaves something to the user, by those of turns_by_hand.sh. On 2, 3 and 4 ranks what is annotated has
# the bits of one process that plays the turns of all, also where memory begins with garbage; where the device adds up in another order each
# time, it is equal within noise. Of the device's operations in regions, after the first round, rank 0 makes the Nth part and at most 0.05 more.
#
# PATTERN: only programs whose name matches it. With --table the figures are written to FILE, a line for each program as it is done: its name,
# and for 2, 3 and 4 ranks what check says tame, poisoned and unruly ("bits": no difference at all), and the part of the operations.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/turns_by_hand.sh"
table=$(cd "$(dirname "$0")" && pwd)/turns.txt
pattern=.
figures=$work/figures
shift # BUILD, which lib.sh has read
while [ $# -gt 0 ]; do
    case $1 in
    --table)
        figures=$(realpath -m -- "${2:?turns.sh: --table wants a file}")
        shift
        ;;
    *) pattern=$1 ;;
    esac
    shift
done
source "$(dirname "$0")/corpus.sh"
printf '#!/bin/sh\nexec "%s" -Xcompiler -O1 -I "%s" "$@"\n' "$build/bin/softgpu-cc" "$work/corpus/interpose/include" >"$work/nvcc"
chmod +x "$work/nvcc"
export NVCC=$work/nvcc build held work ddprun figures table

# in_program COMMAND...: in the program's folder; its output in $at/out and $at/err.
in_program() {
    (cd "$at/program" && timeout 600 "$@" >"$at/out" 2>"$at/err" </dev/null)
}

# how NAME: the words of its row.
how() {
    sed -n "s@^$1 *| *@@p" "$table"
}

# annotated NAME: the program of the folder has its lines; else the step that has failed is printed.
annotated() {
    in_program sh build.sh || { echo build && return 1; }
    in_program "$ddprun" --device softgpu scout --patch change.diff ./train || true
    if [ -e "$at/program/change.diff" ]; then
        in_program patch -p0 -s -i change.diff || { echo patch && return 1; }
    elif [[ $(how "$1") != *hand* ]]; then
        echo scout && return 1
    fi
    (cd "$at/program" && by_hand "$1") >"$at/out" 2>"$at/err" || { echo by-hand && return 1; }
    in_program sh build.sh || { echo lines && return 1; }
}

# judged RANKS OPTIONS...: what check says: "bits" where nothing that is annotated differs, else its verdict.
judged() {
    rm -f "$at/check.json"
    in_program "$ddprun" check -n "$1" --device softgpu --share-gpu --json "$at/check.json" "${@:2}" ./train || true
    python3 -IS - "$at/check.json" <<'END'
import json, sys
try:
    found = json.load(open(sys.argv[1]))
except OSError:
    found = {}
verdict = found.get("verdict") or "none"
print("bits" if verdict == "equal" and found["largest_difference"] == 0 else verdict.replace(" ", "_"))
END
}

# part RANKS: of the operations of all batches in regions, what rank 0 makes; none: the job fails.
part() {
    rm -f "$at/summary.json"
    in_program "$ddprun" -n "$1" --device softgpu --share-gpu --summary-json "$at/summary.json" ./train || { echo none && return; }
    python3 -IS - "$at/summary.json" <<'END'
import json, sys
found = json.load(open(sys.argv[1]))
made, left = found["turn_operations"], found["turn_left_out"]
print("%.3f" % (made / (made + left)) if made + left else "none")
END
}

# measure NAME: its figures, in $work/rows/NAME/row; the step that failed, where it has none.
measure() {
    local at=$work/rows/$1 ranks why row=$1
    mkdir -p "$at"
    cp -r "$held/$1" "$at/program"
    if why=$(annotated "$1"); then
        for ranks in 2 3 4; do
            row+=" $(judged "$ranks") $(SOFTGPU_POISON=1 judged "$ranks" --steps 24)"
            row+=" $(SOFTGPU_UNRULY=$ranks judged "$ranks" --steps 24) $(part "$ranks")"
        done
    else
        row+=" $why"
    fi
    echo "$row" | tee "$at/row" >>"$figures"
}
export -f in_program how annotated judged part measure insert by_hand

# within PART RANKS: the Nth part, and little more.
within_part() {
    awk -v part="$1" -v ranks="$2" 'BEGIN { exit !(part + 0 > 0 && part <= 1 / ranks + 0.05) }'
}

# judge NAME: the program's cases, from its row.
judge() {
    local row ranks=2 shown=$work/rows/$1/err
    read -ra row <"$work/rows/$1/row"
    if [ "${#row[@]}" -ne 13 ]; then
        not_ok "$1" "it fails at ${row[1]}"
        return
    fi
    set -- "$1" "${row[@]:1}"
    local name=$1
    shift
    while [ $# -gt 0 ]; do
        check "$name: $ranks ranks: the bits of one process" test "$1" = bits
        check "$name: $ranks ranks, poisoned: the bits of one process" test "$2" = bits
        if [[ $(how "$name") == *restless* ]]; then
            check "$name: $ranks ranks, unruly: $3" test "$3" != different -a "$3" != none
        else
            check "$name: $ranks ranks, unruly: equal within noise" test "$3" = equal -o "$3" = bits
        fi
        [[ $(how "$name") == *fresh* ]] ||
            check "$name: $ranks ranks: rank 0 makes $4 of the operations" within_part "$4" "$ranks"
        ranks=$((ranks + 1))
        shift 4
    done
}

grep -v '^#' "$table" | cut -d '|' -f 1 | tr -d ' ' | grep -E -e "$pattern" >"$work/chosen"
check 'there are programs to judge' test -s "$work/chosen"
xargs -P "$(nproc)" -I{} bash -c 'measure "$1"' measure {} <"$work/chosen"
while read -r name; do
    judge "$name"
done <"$work/chosen"
cat "$figures"
finish
