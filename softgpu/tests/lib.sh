# shellcheck shell=bash disable=SC2034 # the scripts that source it use its variables
# lib.sh - what the scripts about softgpu-cc and what it makes share. Sourced; changes to a folder of its own, $work, which goes when the
# script ends. Each case_ states a property; the scripts end with `finish "$cases cases"`.
set -u
# shellcheck source=softgpu/tests/lib/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/lib.sh"
work=$(mktemp -d)
at_exit 'rm -rf "$work"'
cd "$work" || exit 1
name=
left_out=
cases=0

# case_ NAME [PARTS]: what follows is judged under this name; with PARTS, as one of so many (in_turn): else nothing is run, and nothing fails.
case_() {
    name=$1 left_out=
    [ $# -eq 1 ] || in_turn "$2" || left_out=yes
    cases=$((cases + 1))
}

fail() {
    [ -z "$left_out" ] || return 0
    printf 'FAILED: %s\n' "${name:+$name: }$*"
    sed 's/^/    /' out err 2>/dev/null | tail -n 40
    failures=$((failures + 1))
}

# run STATUS COMMAND...: the command must end with this status, and leave nothing in $work/tmp; its output is in out and err.
run() {
    local wanted=$1 status
    [ -z "$left_out" ] || return 0
    shift
    timeout -k 1 "$(patient "${limit:-120}")" "$@" >out 2>err </dev/null
    status=$?
    [ "$status" -eq "$wanted" ] || fail "exit $status, not $wanted: $*"
    leaves_nothing "$*"
}

leaves_nothing() {
    [ -z "$(ls -A tmp 2>/dev/null)" ] || fail "left behind: $(ls tmp): $1"
}

says() { grep -qF -- "$1" err || fail "stderr lacks: $1"; }
prints() { grep -qF -- "$1" out || fail "stdout lacks: $1"; }
lacks() { ! grep -qF -- "$1" out err || fail "this should not be there: $1"; }
