#!/usr/bin/env bash
# held.sh BUILD [PATTERN] [--write] - programs of tests/held, which were written before the tools had seen them, are judged as they were:
# `ddprun check` finds the right ones equal, and of the wrong ones the line and the operand; what `ddprun scout --patch` has patched is equal.
# tests/held/missed.txt lists those that miss that: a program that is not listed there and misses it fails, and with DDPRUN_SOAK=1 one that
# is listed and no longer misses it, too.
# Ordinarily one program in 80 runs (chosen), with DDPRUN_SOAK=1 all. PATTERN: those whose name (SERIES/PROGRAM) matches it, and all of
# them. With --write the list takes today's misses of the programs that have run, of all of them without PATTERN.
source "$(dirname "$0")/../end_to_end/lib.sh"
write=no
[ "${*: -1}" != --write ] || { write=yes && set -- "${@:1:$#-1}"; }
pattern=${2:-}
held=$(cd "$(dirname "$0")/../held" && pwd)
list=$held/missed.txt
[ $write = yes ] || [ -e "$list" ] || skip "there is no $list, which --write makes"
rows=$work/rows # SERIES/PROGRAM.row, and what was printed in SERIES/PROGRAM/
export build held rows NVCC_APPEND_FLAGS='-Xcompiler -O0' # optimising takes longer than the runs

# Of check: rows of truth.txt; of scout: folders.
mapfile -t names < <(cd "$held" && for series in check*/ scout*/; do
    if [[ $series == scout* ]]; then printf '%s\n' "$series"*/; else sed -n "s|^\([a-z0-9_]*\)\.cu; .*|$series\1|p" "$series/truth.txt"; fi
done | sort)
number=0
for name in "${names[@]%/}"; do
    if [ -n "$pattern" ]; then [[ $name =~ $pattern ]]; else [ $write = yes ] || chosen "$number" 80; fi && echo "$name"
    ((++number))
done >"$work/chosen"
check "there are programs to judge" test -s "$work/chosen"

# Each in a folder of its own; its row is the last line.
xargs -P 2 -I{} bash -c 'name={} series=${name%%/*} && mkdir -p "$rows/$name" && SERIES=../$series KEEP=$rows/$name RANKS=2 \
    bash "$held/${series%%[0-9]*}/measure.sh" "$build" "${name#*/}" >"$rows/$name.row" 2>&1' <"$work/chosen"

# misses NAME: exit code 0 if the tool misses it.
misses() {
    local code line operand checked
    read -r _ code line operand _ checked _ < <(tail -n 1 "$rows/$1.row")
    case $1 in
    scout*) [ "$checked" != 0 ] ;;
    */right_*) [ "$code" != 0 ] ;;
    *) [[ "$code $line $operand" != [13]" "@(yes|-)" "@(yes|-) ]] ;;
    esac
}

touch "$work/missed"
while read -r name; do
    shown=$rows/$name.row missed=no listed=no
    ! misses "$name" || missed=yes
    [ $missed = no ] || echo "$name" >>"$work/missed"
    ! grep -qsxF "$name" "$list" || listed=yes
    if [ $write = yes ] || [ $missed = $listed ]; then
        ok "$name"
    elif [ $missed = yes ]; then
        not_ok "$name" "it is missed, and tests/held/missed.txt does not list it"
    else
        report "$name" "$([ "${DDPRUN_SOAK:-0}" = 0 ] || echo "it is found: take it out of tests/held/missed.txt (--write)")"
    fi
done <"$work/chosen"
if [ $write = yes ]; then
    { grep -svxFf "$work/chosen" "$list" || true && cat "$work/missed"; } | sort >"$list.new"
    mv "$list.new" "$list"
    ok "$(wc -l <"$list") of ${#names[@]} programs are listed as missed"
fi
finish
