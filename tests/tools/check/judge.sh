#!/usr/bin/env bash
# judge.sh BUILD SUBJECT [WORD...] - what `ddprun check` says of the wrong and right programs of SUBJECT.txt: no wrong one is equal, each
# has the exit code, the cause and the words of its row, and no right one is accused (judge.py). SUBJECT is a table of this folder, or
# ../held/place. WORDs are words of programs, or numbers of rows, which run alone. SUBJECT.sh has what no table says: `prepare` runs before
# the table, `after` after it, where all rows run.
#
# Ordinarily one row of several runs (chosen), with one number of ranks and one rate; with DDPRUN_SOAK=1 all run, with all of them. JUDGE_RATES and JUDGE_RANKS
# have others; JUDGE_SAY=1 prints what each verdict says. The last lines are the score. With JUDGE_TRUTH=1 the programs are tried without `check` (jury.sh).
#
# A row: [soak] wrong|right CELL | CELL ..., whose cells the line `columns` names; soak: the row runs in soaks alone. Other lines hold for
# the rows below them:
#   every N         one row of so many runs; 10
#   ranks N...      of a check; 2
#   rates R...      each is the program's --rate; at one that ends in ? a wrong program need not be named, and is not equal; none
#   sanitized W...  WORDs in a build with a sanitizer, which finds nothing more in the others
#   word NAME RE    $NAME in `says`
#   prefix RE       stands in front of each `says`
#   job CODE RE     a job of a wrong program ends with CODE, and one line of it is RE; one of a right program ends with 0, and no line is
#   first N         of so many wrong programs in 100 the true cause comes first; 100: of each but known ones
#   known PROGRAM: what it does   the row is known to fail. When it does not, its line has to go, unless it is "sometimes"
# Cells: program (a text as the shell has it, with variables in front of it; {a,b} makes a row of each; a path in the build, or in its part
# of this folder), options of check, ranks, rates, codes, causes, tensor, says: what the mistake is, and not what the tool prints.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/lib.sh"
watch_leftovers
subject=$2
wanted=("${@:3}")
soak=${DDPRUN_SOAK:-0} tried=0
held= # the folder of the corpus, for tables whose script sets it (tests/tools/held/place.sh)
declare -A words=() known=() counts=() is=([every]=10 [ranks]=2 [rates]='' [first]=0 [prefix]='' [job]='')
prepare() { :; }
after() { :; }

# command_of PROGRAM: sets command, and the variables in front of it. A program of the corpus, held/SERIES/PROGRAM, is compiled: optimising
# takes longer than its runs.
command_of() {
    eval "command=($1)"
    variables=()
    while [[ ${command[0]} == *=* ]]; do
        variables+=("${command[0]}")
        command=("${command[@]:1}")
    done
    case ${command[0]} in
        held/*)
            NVCC_APPEND_FLAGS='-Xcompiler -O0' "$build/bin/softgpu-cc" -O2 -g -I"$here/../../../interpose/include" \
                "$held/${command[0]#held/}.cu" -o "$work/${command[0]##*/}" -lcublas 2>"$work/stderr"
            command[0]=$work/${command[0]##*/}
            ;;
        samples/* | tests/*) command[0]=$build/${command[0]} ;;
        *) command[0]=$build/tests/tools/check/${command[0]} ;;
    esac
}

# judge_once: a row's program with $n ranks, at $rate.
judge_once() {
    local word why again title="$kind $program, $n ranks${rate:+, rate ${rate%\?}}" begin=${EPOCHREALTIME/./} command variables asks=none
    command_of "$program"
    tried=$((tried + 1))
    if [ "${JUDGE_TRUTH:-0}" = 1 ]; then
        report "$title" "$(try_truth)"
        return
    fi
    [ -z "$rate" ] || command+=(--rate "${rate%\?}")
    [ "$kind" = right ] || asks=any # of wrong ones memory may be forgotten
    [ "${#variables[@]}" -eq 0 ] || export "${variables[@]}"
    checked "$n" "$options" "${command[@]}"
    [ "$n" -ne 2 ] || rules_hold "$subject $program"
    [ -z "$(ls -A "$TMPDIR")" ] || not_ok "$title: leaves nothing" "$(ls "$TMPDIR")"
    read -r word why < <(verdict_of "$kind" "$codes" "$causes" "$tensor" "${says:+${is[prefix]}(?:$says)}")
    word=${word:-unread} # judge.py has failed
    counts[$word]=$((${counts[$word]:-0} + 1))
    [ "${JUDGE_SAY:-0}" = 0 ] || printf '    %s\n' "$why"
    again="$why; again: ${rate:+JUDGE_RATES=${rate%\?} }JUDGE_RANKS=$n bash tests/tools/check/judge.sh BUILD $subject $number"
    if [[ " first named fair " == *" $word "* ]] || { [ "$word" = listed ] && [ "${is[first]}" -lt 100 ]; } ||
        { [[ " listed other " == *" $word "* ]] && [[ $rate == *\? ]]; }; then
        if [ -z "${known[$program]:-}" ] || [[ ${known[$program]} == sometimes* ]] || [[ $rate == *\? ]]; then
            ok "$title: $word, ${why%%|*}$(((${EPOCHREALTIME/./} - begin) / 1000)) ms"
        else
            not_ok "$title" "known to fail (${known[$program]}), and does not: take the line away"
        fi
    elif [ -n "${known[$program]:-}" ] && [ "$word" != equal ] && [ "$word" != hung ]; then
        printf 'known - %s: %s\n' "$title" "$why"
    else
        not_ok "$title" "$word: $again"
    fi
    [ -z "${is[job]}" ] || judge_job "${is[job]%% *}" "${is[job]#* }"
    [ "${#variables[@]}" -eq 0 ] || unset "${variables[@]%%=*}"
}

# judge_job CODE RE: the same program without the check.
judge_job() {
    local lines=1
    [ "$kind" = wrong ] || { lines=0 && set -- 0 "$2"; }
    run "$ddprun" -n "$n" "${command[@]}"
    check "a job: $title: ends with $1" [ "$code" -eq "$1" ]
    check "a job: $title: says it $lines times" [ "$(grep -cE "$2" "$work/stderr")" -eq "$lines" ]
}

# one_of NUMBER WORD...: the words that a row runs with: all in a soak; else one in turn, of those without a ?.
one_of() {
    local turn=$1 word some=()
    shift
    for word in "$@"; do [[ $word == *\? ]] || some+=("$word"); done
    if [ "$soak" = 1 ] || [ $# -eq 0 ]; then echo "$*"; else echo "${some[turn % ${#some[@]}]}"; fi
}

# is_wanted: the row's program or number is a word of the command line; without words, it is the row's turn.
is_wanted() {
    local one
    [ "${#wanted[@]}" -gt 0 ] || { chosen "$number" "${is[every]}" && return; }
    for one in "${wanted[@]}"; do [[ " $number $program " != *" $one "* ]] || return 0; done
    return 1
}

# row CELLS: one program.
row() {
    local program='' options='' ranks=${is[ranks]} rates=${is[rates]} codes='' causes='' tensor='' says='' cell n rate
    IFS='|' read -r "${columns[@]}" <<<"$1"
    for cell in "${columns[@]}"; do printf -v "$cell" '%s' "$(trim "${!cell}")"; done
    for cell in "${!words[@]}"; do says=${says//\$$cell/${words[$cell]}}; done
    number=$((number + 1))
    is_wanted || return 0
    rates=${JUDGE_RATES:-$(one_of $((number / is[every])) $rates)}
    for n in ${JUDGE_RANKS:-$(one_of $((number / is[every])) $ranks)}; do
        for rate in ${rates:-''}; do judge_once; done
    done
}

# each_of CELLS: rows; with {a,b} in the program one for each.
each_of() {
    local program=${1%%|*} each programs
    program=${program//\$/\\\$}
    eval "programs=(${program// /\\ })"
    for each in "${programs[@]}"; do row "$each|${1#*|}"; done
}

read_table() {
    local word rest kind number=0 columns
    while read -r -u 4 word rest; do
        [ "$word" != soak ] || { [ "$soak$#" != 00 ] || continue; read -r word rest <<<"$rest"; }
        case $word in
            '' | '#'*) ;;
            wrong | right) kind=$word && each_of "$rest" ;;
            columns) IFS='| ' read -ra columns <<<"$rest" ;;
            word) words[${rest%% *}]=${rest#* } ;;
            known) known[${rest%%: *}]=${rest#*: } ;;
            sanitized) [ "$sanitized" -eq 0 ] || [ "${#wanted[@]}" -gt 0 ] || read -ra wanted <<<"$rest" ;;
            every | ranks | rates | first | prefix | job) is[$word]=$rest ;;
            *) not_ok "$subject.txt: $word begins no line" "$rest" ;;
        esac
    done 4<"$here/$subject.txt"
}

# shellcheck source=/dev/null
[ ! -e "$here/$subject.sh" ] || source "$here/$subject.sh"
cd "$work" || exit 1
prepare
read_table "${wanted[@]}"
check "$tried programs are tried" [ "$tried" -gt 0 ]
all=0
for word in equal named first listed other; do all=$((all + ${counts[$word]:-0})); done
printf 'wrong: %d; equal %d, equal but for what is named %d, cause first %d, in a list %d, another cause %d\nright: %d; accused %d\n' "$all" \
    "${counts[equal]:-0}" "${counts[named]:-0}" "${counts[first]:-0}" "${counts[listed]:-0}" "${counts[other]:-0}" \
    $((${counts[fair]:-0} + ${counts[accused]:-0})) "${counts[accused]:-0}"
if [ "${#wanted[@]}" -eq 0 ] && [ "$soak" = 1 ] && [ "${is[first]}" -gt 0 ] && [ "${is[first]}" -lt 100 ]; then
    check "of $all the true cause comes first in ${is[first]} of 100" [ $((100 * ${counts[first]:-0})) -ge $((is[first] * all)) ]
    check "and is listed in 95 of 100" [ $((100 * (${counts[first]:-0} + ${counts[listed]:-0}))) -ge $((95 * all)) ]
fi
[ "${#wanted[@]}" -gt 0 ] || after
finish
