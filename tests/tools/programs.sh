#!/usr/bin/env bash
# programs.sh BUILD [PATTERN] - each small program of tests/programs shows one verdict of `ddprun check`, lines or a refusal of `ddprun scout`,
# or a way or a refusal of `ddprun --plan auto`, and the tool says so (programs.txt). The programs are compiled here, as a user compiles them.
# Ordinarily a third of them is tried (TESTS_PART).
#
#   check   stdout has the words, and the exit code is 0 (equal), 1 (different) or 3 (not comparable);
#           the rules that rules.txt says of the program have decided
#   scout   0: a line of the patch has the words, and ranks of the patched program take turns; 1: the tool says the words
#   plan    the tool says the words; 0: the saved parameters of 2 ranks are those of one process with batches twice as large
#
# With DDPRUN_SOAK=1 each row that trains shows that it can fail, too: a program is edited so that its mistake is gone, or made; a patch
# loses its line; batches of one process are as large as those of a rank. PATTERN: only programs whose names match it.
source "$(dirname "$0")/../end_to_end/lib.sh"
source "$(dirname "$0")/scout/pasted.sh"
# shellcheck source=tests/tools/rules.sh
source "$(dirname "$0")/rules.sh"
sources=$(cd "$(dirname "$0")/../.." && pwd)
pattern=${2:-.}
soak=${DDPRUN_SOAK:-0}

rows=$(grep -vE '^(#|edit |$)' "$sources/tests/tools/programs.txt")
edits=$(sed -n 's/^edit | //p' "$sources/tests/tools/programs.txt")

# compile OUTPUT: $program in the current folder.
compile() {
    works "$program: compiles ($1)" "$build/bin/softgpu-cc" -g -Xcompiler -O0,-Wall,-Wextra,-Werror,-Wno-missing-field-initializers \
        -D_GNU_SOURCE -I. -Isamples -I"$sources/interpose/include" "tests/programs/$program.cu" samples/common/parameter_file.c -lcublas -o "$1"
}

# check_ranks PROGRAM...: what `ddprun check` says; each fact of a verdict is in the verdict's line.
check_ranks() {
    rm -f "$work/verdict.json"
    run "$ddprun" check -n 2 --device softgpu --share-gpu --json "$work/verdict.json" "$@"
    sed -i -e ':a' -e 'N;$!ba' -e 's/\n    /; /g' "$work/stdout"
}

# says TITLE: the last command ended with the row's exit code, and with its words.
says() {
    check "$1: exit code $exit" test "$code" -eq "$exit"
    check "$1: $words" grep -qE "$words" "$work/stdout" "$work/stderr"
}

# rules_decide WHERE: the last check's rules are those that rules.txt says of the program.
rules_decide() {
    [ -n "$(rules_shown "$1")" ] || return 0
    check "$1: a verdict" test -e "$work/verdict.json"
    [ ! -e "$work/verdict.json" ] || report "$1: the rules of rules.txt" "$(rules_missing "$1" "$work/verdict.json")"
}

# is_judged VERDICT: the last check's verdict is equal, or another one.
is_judged() {
    local judged=none
    case $code in
    0) ! grep -q '^equal: ' "$work/stdout" || judged=equal ;;
    1 | 3) judged=other ;;
    esac
    [ "$judged" = "$1" ]
}

try_check() {
    local asks=none
    [ "$exit" -eq 0 ] || asks=any # wrong programs may have forgotten memory
    check_ranks "${options[@]}" ./plain "${arguments[@]}"
    says "check $program${arguments[*]:+ ${arguments[*]}}"
    rules_decide "programs $program${arguments[*]:+ ${arguments[*]}}"
    local edit verdict=other
    edit=$(sed -n "s/^$program | //p" <<<"$edits")
    [ "$soak" = 1 ] && [ -n "$edit" ] || return 0
    [ "$exit" -eq 0 ] || verdict=equal
    sed -i "$edit" "tests/programs/$program.cu"
    compile edited
    cp "$sources/tests/programs/$program.cu" tests/programs
    check_ranks "${options[@]}" ./edited
    check "check $program, edited: $verdict" is_judged $verdict
}

try_scout() {
    run "$ddprun" -q --device softgpu scout --patch lines.diff ./plain
    if [ "$exit" -ne 0 ]; then
        says "scout $program"
        return
    fi
    check "scout $program: scouted" test "$code" -eq 0
    check "scout $program: a line has $words" grep -qE "^\+.*$words" lines.diff
    check "scout $program: the patch applies" patch -p0 --fuzz=0 -s -i lines.diff
    compile lines
    takes_turns "scout $program" 2 ./lines
    [ "$soak" = 1 ] || return 0
    sed -i -E "/$words/d" "tests/programs/$program.cu"
    compile without
    run "$ddprun" -n 2 --device softgpu ./without
    check "scout $program, without the line: the job ends" test "$code" -ne 0
}

try_plan() {
    run "$ddprun" -n 2 --device softgpu --share-gpu --plan auto --slow --yes "${options[@]}" ./plain --save ranks
    says "plan $program${options[*]:+ ${options[*]}}"
    [ "$exit" -eq 0 ] || return 0
    works "plan $program: one process" ./plain --save one --batch 16
    check "plan $program: the ranks have its parameters" "$compare" --quiet ranks one 1e-5
    [ "$soak" = 1 ] || return 0
    works "plan $program: one process with batches as large as a rank's" ./plain --save other --batch 8
    check "plan $program: and not these parameters" eval '! "$compare" --quiet ranks other 1e-3'
}

# try_program: all rows of $program, in a folder with its sources.
try_program() {
    local tool exit name words options arguments
    mkdir -p "$work/program"/tests/{lib,programs} "$work/program/samples/common"
    cd "$work/program" || exit 1
    cp "$sources"/tests/lib/*.h tests/lib
    cp "$sources/tests/programs/"{layer.h,"$program.cu"} tests/programs
    cp "$sources"/samples/common/parameter_file.[ch] samples/common
    compile plain
    while IFS='|' read -r tool exit name words options; do
        read -ra arguments <<<"$name"
        [ "${arguments[0]}" = "$program" ] || continue
        arguments=("${arguments[@]:1}")
        exit=$(trim "$exit")
        words=$(trim "$words")
        read -ra options <<<"$options"
        "try_$(trim "$tool")"
    done <<<"$rows"
}

# programs_of_rows: their names, each once.
programs_of_rows() {
    awk -F ' *[|] *' '{ split($3, words, " "); print words[1] }' <<<"$rows" | sort -u
}

# is_drawn NUMBER: a third of the programs run (TESTS_PART); in a soak, and by a pattern, all.
is_drawn() {
    [ "$pattern" != . ] || chosen "$1" 3
}

programs=()
number=0
while read -r name; do
    number=$((number + 1))
    is_drawn "$number" && programs+=("$name")
done < <(programs_of_rows | grep -E "$pattern")
check "there are programs to try" test ${#programs[@]} -gt 0
if [ ${#programs[@]} -eq 1 ]; then
    program=${programs[0]}
    try_program
else
    # Two at a time, each by a script of its own.
    printf '%s\n' "${programs[@]}" | xargs -P 2 -I{} bash -c 'bash "$0" "$1" "^{}\$" >"$2/{}.said" 2>&1; echo $? >"$2/{}.code"' "$0" "$build" "$work"
    shown='' # it stands in what the script has said
    for program in "${programs[@]}"; do
        cat "$work/$program.said"
        read -r code <"$work/$program.code" || code=1
        succeeded "$program: all of its rows"
    done
fi
check "each program has a row" diff <(programs_of_rows | sed 's/$/.cu/') <(cd "$sources/tests/programs" && printf '%s\n' *.cu)
finish
