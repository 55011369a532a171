# shellcheck shell=bash disable=SC2034,SC2154 # the scripts that source it use its variables, and it those of end_to_end
# lib.sh - what the scripts of this folder share: a run of `ddprun check`, and what its verdict is held against. Sourced with the build
# folder as $1, after that of end_to_end. $here: this folder.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/tools/rules.sh
source "$here/../rules.sh"
updates=$build/tests/tools/check/updates
rows=$build/tests/tools/check/rows # its words are mistakes and habits
sums=$build/tests/tools/check/sums
seeds=$build/tests/tools/check/seeds
text=$(dirname "$data")/shakespeare.txt
few=(report --steps 12 --optimizer momentum)
few_steps="${few[*]}" # of rows, in tables
chargpt="--data $text --layers 1 --width 16 --heads 2 --context 16 --batch 12 --steps 12 --warmup 0 --eval-every 1000 --eval-batches 1 --quiet"
checkpoint=$work/checkpoint
limit=120

command -v python3 >/dev/null || skip "no python3, which reads JSON here"

# checked RANKS OPTIONS PROGRAM...: runs the command; sets code. OPTIONS is one text, with quotes as the shell has them.
checked() {
    local ranks=$1 options
    eval "options=($2)"
    shift 2
    rm -f "$work/verdict.json"
    run "$ddprun" check -n "$ranks" --json "$work/verdict.json" "${options[@]}" "$@"
    sed -i -e ':a' -e 'N;$!ba' -e 's/\n    /; /g' "$work/stdout" # the facts of a verdict, in one line again
}

# rules_hold WHERE: the last check's rules are those that ../rules.txt says of the program. With TESTS_RULES, a file, they are added to it.
rules_hold() {
    [ -e "$work/verdict.json" ] || return 0
    [ -z "${TESTS_RULES:-}" ] || rules_given "$work/verdict.json" | sed "s/$/ | ${1//\//\\/}/" >>"$TESTS_RULES"
    local missing
    missing=$(rules_missing "$1" "$work/verdict.json")
    [ -z "$missing" ] || not_ok "$1: the rule of ../rules.txt" "$missing"
}

# verdict_of KIND CODES CAUSES TENSOR SAYS: what the last check made of a program (judge.py).
verdict_of() {
    python3 -IS "$here/judge.py" "$1" "$code" "${@:2}" "$work"
}

# why_not CODE CAUSES TENSOR: what the last verdict is, where it is not as expected; prints nothing if it is.
why_not() {
    local found
    found=$(verdict_of right "$1" "$2" "$3" '')
    [[ $found == fair* ]] || echo "$found"
}
