# shellcheck shell=bash disable=SC2154 # the scripts that source it set sample and program
# lib.sh - what the scripts about samples' input share. Sourced after $sample, its name, and $program are set; makes the folder $work.
# shellcheck source=tests/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
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
