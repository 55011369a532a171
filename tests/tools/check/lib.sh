# shellcheck shell=bash disable=SC2034,SC2154 # the scripts that source it use its variables, and it those of end_to_end
# lib.sh - what the scripts of this folder share: a run of `ddprun check`, and what its verdict is held against. Sourced with the build
# folder as $1, after that of end_to_end.
conv=$build/tests/tools/check/conv
updates=$build/tests/tools/check/updates
rows=$build/tests/tools/check/rows # the jury: its words are mistakes and habits
sums=$build/tests/tools/check/sums
kmeans=$build/tests/tools/check/kmeans # KMEANS_FORGOTTEN: what has no DDP_REDUCE
seeds=$build/tests/tools/check/seeds
text=$(dirname "$data")/shakespeare.txt
conv_options=(--steps 12 --quiet)
chargpt_options=(--data "$text" --layers 1 --width 16 --heads 2 --context 16 --batch 12 --steps 12 --warmup 0
    --eval-every 1000 --eval-batches 1 --quiet)
limit=120

command -v python3 >/dev/null || skip "no python3, which reads JSON here"

# checked RANKS OPTIONS PROGRAM...: runs the command; sets code, verdict, cause and tensor ("ROLE NUMBER TEXT", or empty).
# OPTIONS is one text, with quotes as the shell has them.
checked() {
    local ranks=$1 options
    eval "options=($2)"
    shift 2
    rm -f "$work/verdict.json"
    run "$ddprun" check -n "$ranks" --json "$work/verdict.json" "${options[@]}" "$@"
    sed -i -e ':a' -e 'N;$!ba' -e 's/\n    /; /g' "$work/stdout" # the facts of a verdict, in one line again
    # What is not in these programs' steps, `ddprun scout` knows: it accuses no right one, of those that are equal.
    [[ "$*" == *forgotten_parameter* ]] || { [ "$code" -eq 0 ] && grep '^missing: ' "$work/stdout" >"$work/accused" &&
        not_ok "an annotation that is there is not missed: $*" "$(head -n 1 "$work/accused")"; }
    verdict='' cause='' tensor=''
    [ ! -s "$work/verdict.json" ] || { read -r verdict && read -r cause && read -r tensor; } < <(python3 -IS -c '
import json, sys
found = json.load(open(sys.argv[1]))
tensor = found.get("tensor") or {}
print((found.get("verdict") or "none").replace(" ", "_"))
print(found.get("cause") or "null")
print(*(tensor.get(name, "-") for name in ("role", "number", "text")))' "$work/verdict.json")
}

# why_not CODE CAUSES TENSOR: why the last verdict is not as expected; prints nothing if it is. CAUSES: words; "-": any. TENSOR: an
# extended regular expression; "-": any.
why_not() {
    local words=([0]=equal [1]=different [3]=not_comparable)
    if [ "$code" -ne "$1" ]; then
        echo "exit code $code instead of $1, verdict ${verdict:-none}, cause ${cause:-none}, tensor ${tensor:-none}"
    elif [ -n "${words[$1]:-}" ] && [ "$verdict" != "${words[$1]}" ]; then
        echo "exit code $code, but the verdict is ${verdict:-none}"
    elif [ "$2" != - ] && [[ " $2 " != *" $cause "* ]]; then
        echo "cause ${cause:-none} instead of $2, tensor ${tensor:-none}"
    elif [ "$3" != - ] && ! grep -Eq -e "$3" <<<"$tensor"; then
        echo "tensor ${tensor:-none} instead of /$3/"
    fi
}
