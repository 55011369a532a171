#!/usr/bin/env bash
# held.sh BUILD [PATTERN] [--scores FILE] - a soak: all programs of the corpus ($DDPRUN_CORPUS, held/corpus.sh) are judged, and the score
# of each series is printed. A program of check is found if `ddprun check` says that a right one is equal, and names the line and the
# operand of a wrong one. A program of scout is found if it is equal with the patch of `ddprun scout --patch`.
#
# missed.txt of the corpus lists the programs that the tools do not find. A program that is missed and not listed there fails. One that is
# listed and found is named, and does not fail. The corpus stays as it is: no program of it is changed, and no list is written.
#
# PATTERN: only the programs whose name (SERIES/PROGRAM) matches this regular expression. With --scores the result of each program is
# written to FILE, a line "SERIES/PROGRAM found|missed", for a comparison of two builds.
source "$(dirname "$0")/../end_to_end/lib.sh"

usage() { # WHY
    printf 'held.sh: %s\nUsage: bash tests/tools/held.sh BUILD [PATTERN] [--scores FILE]\n' "$1" >&2
    exit 2
}

pattern=.
scores=
shift # BUILD, which lib.sh has read
while [ $# -gt 0 ]; do
    case $1 in
    --scores)
        [ $# -ge 2 ] || usage '--scores wants a file'
        scores=$2
        [ -d "$(dirname -- "$scores")" ] || usage "--scores $scores: there is no such folder"
        shift
        ;;
    -*) usage "$1: unknown option" ;;
    *) pattern=$1 ;;
    esac
    shift
done
source "$(dirname "$0")/held/corpus.sh"
rows=$work/rows # SERIES/PROGRAM.row, and the output of check or scout in SERIES/PROGRAM/
export build held rows NVCC_APPEND_FLAGS='-Xcompiler -O0' # optimising takes longer than the runs

# programs: SERIES/PROGRAM of each: a row of truth.txt in a series of check, a folder in a series of scout.
programs() (
    cd "$held" && shopt -s nullglob || exit
    for series in check*/; do
        sed -n "s|^\([a-z0-9_]*\)\.cu; .*|$series\1|p" "$series/truth.txt"
    done
    for folder in scout*/*/; do
        printf '%s\n' "${folder%/}"
    done
)

# measure SERIES/PROGRAM: the program's row, in $rows, by measure.sh of the first series of its kind.
measure() {
    local name=$1 series=${1%%/*}
    mkdir -p "$rows/$name"
    SERIES=../$series KEEP=$rows/$name RANKS=2 bash "$held/${series%%[0-9]*}/measure.sh" "$build" "${name#*/}" >"$rows/$name.row" 2>&1
}
export -f measure

# is_measured NAME: the last line that measure.sh has printed is the program's row.
is_measured() {
    local program
    read -r program _ < <(tail -n 1 "$rows/$1.row")
    [ "$program" = "${1#*/}" ]
}

# is_found NAME: by the program's row. Its columns are, of check: program, exit code, line (yes, no, or - where the truth has no line),
# operand (the same); of scout: program, exit code of scout, words, exit codes of patch, build and check.
is_found() {
    local row
    read -ra row < <(tail -n 1 "$rows/$1.row")
    case $1 in
    scout*) [ "${row[5]}" = 0 ] ;;
    */right_*) [ "${row[1]}" = 0 ] ;;
    *) [[ ${row[1]} == [13] && ${row[2]} != no && ${row[3]} != no ]] ;;
    esac
}

is_listed() {
    grep -qxF "$1" "$held/missed.txt"
}

# judge NAME: the program's case, and its line in $work/scores; in $work/gained, too, if it is found and listed.
judge() {
    local name=$1 shown=$rows/$1.row
    if ! is_measured "$name"; then
        echo "$name missed" >>"$work/scores"
        not_ok "$name" 'measure.sh has printed no row for it'
    elif is_found "$name"; then
        echo "$name found" >>"$work/scores"
        ! is_listed "$name" || echo "$name" >>"$work/gained"
        ok "$name"
    else
        echo "$name missed" >>"$work/scores"
        report "$name" "$(is_listed "$name" || echo 'it is missed, and missed.txt of the corpus does not list it')"
    fi
}

programs | grep -E -e "$pattern" | sort -t / -k 1,1V -k 2 >"$work/chosen"
check 'there are programs to judge' test -s "$work/chosen"
xargs -P "$(nproc)" -I{} bash -c 'measure "$1"' measure {} <"$work/chosen"
touch "$work/scores" "$work/gained"
while read -r name; do
    judge "$name"
done <"$work/chosen"
[ -z "$scores" ] || check "the results are in $scores" eval 'cp "$work/scores" "$scores.new" && mv "$scores.new" "$scores"'

[ ! -s "$work/gained" ] || printf 'found, and listed as missed: %s\n' "$(paste -sd ' ' "$work/gained")"
awk '
    function score(name, found, judged) { printf "%-8s %3d of %3d found, %d missed\n", name, found, judged, judged - found }
    { sub("/.*", "", $1) }
    !($1 in judged) { series[++count] = $1 }
    { ++judged[$1]; found[$1] += $2 == "found"; all_found += $2 == "found" }
    END {
        for (i = 1; i <= count; ++i)
            score(series[i], found[series[i]], judged[series[i]])
        score("in all", all_found, NR)
    }' "$work/scores"
finish
