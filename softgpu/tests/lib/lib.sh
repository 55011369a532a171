# shellcheck shell=bash disable=SC2034,SC2154 # the scripts that source it use its variables, and it theirs
# lib.sh - what the scripts of all tests share: how a case is reported, how a script ends that cannot run here, and the limits of
# patience.sh. Sourced; starts nothing and makes no folder. A case is one line, "ok - NAME" or
# "not ok - NAME (WHY)". `finish` is the last line of each script: exit code 1 if a case was not ok. A script that ends before with
# exit code 0 has not made all of its cases, and fails. The EXIT trap is this file's: at_exit adds to it.
# shellcheck source=softgpu/tests/lib/patience.sh
source "$(dirname "${BASH_SOURCE[0]}")/patience.sh"
failures=0 # cases that were not ok, and complaints
finished=  # yes once the last line is reached
at_end=()  # commands of at_exit

# at_exit COMMAND: the shell runs it when the script ends, the latest first.
at_exit() {
    at_end+=("$1")
}

end_of_script() {
    local code=$? i
    for ((i = ${#at_end[@]} - 1; i >= 0; i--)); do
        eval "${at_end[i]}" || true
    done
    if [ "$code" -eq 0 ] && [ -z "$finished" ]; then
        printf 'not ok - %s makes all of its cases (it ended before its last line, `finish`)\n' "${0##*/}"
        code=1
    fi
    exit "$code"
}
trap end_of_script EXIT

ok() {
    printf 'ok - %s\n' "$1"
}

# not_ok NAME WHY: shows the end of the file $shown, too: what the command under test has said. With a folder $kept_logs the whole file
# stays there, and is named: for failures that seldom come again.
not_ok() {
    printf 'not ok - %s (%s)\n' "$1" "$2"
    failures=$((failures + 1))
    [ -z "${shown:-}" ] || sed 's/^/    /' "$shown" 2>/dev/null | tail -n 12
    [ -z "${kept_logs:-}" ] || keep_log "$1" "$2"
}

keep_log() {
    local file
    mkdir -p "$kept_logs"
    file=$kept_logs/$(date +%Y%m%d-%H%M%S)-$$-$failures.log
    {
        printf '%s: %s\nload: %s\n' "$1" "$2" "$(cat /proc/loadavg)"
        ps -eo pid,ppid,pgid,stat,etimes,args
        cat "${shown:-/dev/null}"
    } >"$file" 2>&1
    printf '    the whole log: %s\n' "$file"
}

# report NAME WHY: ok if WHY is empty.
report() {
    if [ -z "$2" ]; then ok "$1"; else not_ok "$1" "$2"; fi
}

# check NAME CONDITION...: the case is ok if the condition, a command, holds. Needs the folder $work.
check() {
    local name=$1
    shift
    if "$@" >"$work/check" 2>&1; then ok "$name"; else not_ok "$name" "$* -> $(tail -n 1 "$work/check")"; fi
}

# finish [WHAT]: ends the script; prints WHAT if all cases were ok.
finish() {
    finished=yes
    [ "$rows_so_far" -lt 3 ] || [ "$rows_taken" -gt 0 ] || complain "none of $rows_so_far rows was in turn"
    [ "$failures" -gt 0 ] || [ $# -eq 0 ] || printf '%s\n' "$*"
    exit $((failures > 0))
}

# complain WHAT: for scripts whose cases have no names.
complain() {
    printf '%s\n' "$*"
    failures=$((failures + 1))
}

# chosen NUMBER PARTS: whether a row of a table is in this run's part of the rows: the part of $TESTS_PART, or the first. With TESTS_SOAK=1 all rows run.
part=${TESTS_PART:-0}
chosen() {
    [ "$tests_soak" = 1 ] || (($1 % $2 == part % $2))
}

# in_turn PARTS: chosen, where rows stand in no table: each call is the next row. Of three rows one runs (finish).
rows_so_far=0
rows_taken=0
in_turn() {
    chosen $((rows_so_far++)) "$1" && rows_taken=$((rows_taken + 1))
}

# trim WORD: prints it without the blanks around it.
trim() {
    local word=${1#"${1%%[![:blank:]]*}"}
    printf '%s' "${word%"${word##*[![:blank:]]}"}"
}

# skip WHY: the script cannot run on this machine.
skip() {
    [ "$failures" -eq 0 ] || exit 1
    printf 'skipped: %s\n' "$*"
    exit 77
}
