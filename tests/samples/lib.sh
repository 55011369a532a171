# shellcheck shell=bash disable=SC2154 # the scripts that source it set sample and program
# lib.sh - what the scripts about samples' input share. Sourced after $sample, its name, and $program are set; makes the folder $work.
# shellcheck source=tests/lib/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/lib.sh"
work=$(mktemp -d)
at_exit 'rm -rf "$work"'

# expect CODE PATTERN ARGUMENTS...: the exit code, no output, and exactly one line on stderr, of the sample, that matches.
expect() {
    local code=$1 pattern=$2 got=0
    shift 2
    timeout -k 1 "$(patient 60)" "$program" "$@" </dev/null >"$work/out" 2>"$work/err" || got=$?
    if [ "$got" -ne "$code" ] || [ -s "$work/out" ] || [ "$(wc -l <"$work/err")" -ne 1 ] ||
        ! grep -q "^$sample: " "$work/err" || ! grep -qE -e "$pattern" "$work/err"; then
        complain "$sample $*: exit code $got, expected $code and one line with $pattern; got:"
        cat "$work/out" "$work/err"
    fi
}

# train NAME PROGRAM OPTIONS...: stdout and parameters of the program of the folder $programs, with $options, into NAME.out and NAME.params.
train() {
    timeout -k 1 "$(patient 100)" "$programs/$2" "${options[@]}" --save "$work/$1.params" "${@:3}" </dev/null >"$work/$1.out" 2>"$work/$1.err" || {
        complain "$2 ${*:3}:"
        cat "$work/$1.err"
    }
}

# same NAME OTHER: two trainings print and save the same bytes.
same() {
    check "$1 and $2 print the same" cmp "$work/$1.out" "$work/$2.out"
    check "$1 and $2 save the same" cmp "$work/$1.params" "$work/$2.params"
}

# unlike NAME OTHER COMPARE: the comparisons can say no: two trainings save other parameters.
unlike() {
    check "$1 and $2 are not the same" eval "! cmp -s '$work/$1.params' '$work/$2.params'"
    check "$1 and $2 are not close" eval "! '$3' --quiet '$work/$1.params' '$work/$2.params' 1e-3 >'$work/shown'"
}
