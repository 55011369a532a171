# shellcheck shell=bash disable=SC2034,SC2154 # the scripts that source it use its variable, and it those of end_to_end
# pasted.sh - the lines that `ddprun scout --patch` writes are put into a program's sources, and ranks of the program take turns. Sourced
# by lines.sh, by tests/tools/held/lines.sh and by tests/tools/programs.sh, after end_to_end/lib.sh.
sources=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)

# compile FOLDER PROGRAM WORD...: a program from the sources in a folder, as a user's command line would, or with the optimisation $level.
compile() {
    (cd "$1" && run "$build/bin/softgpu-cc" -Xcompiler "-O${level:-1}" -g -D_GNU_SOURCE -Isamples -I"$sources/interpose/include" "${@:3}" -lcublas -o "$2" &&
        [ "$code" -eq 0 ]) || sed 's/^/# /' "$work/stderr"
}

# figure FILE KEY: of rank 0, from a summary.
figure() {
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1])).get(sys.argv[2], 0))' "$1" "$2"
}

# takes_turns TITLE RANKS PROGRAM...: the ranks end well and with the same bits; each batch is computed by one of them, but for the first: of the
# device's operations in regions a rank makes its share; and one process that plays the turns of all trains the same.
takes_turns() {
    local title=$1 ranks=$2 made left
    shift 2
    rm -f "$work/turns.json"
    run "$ddprun" -n "$ranks" --device softgpu --summary-json "$work/turns.json" "$@"
    succeeded "$title: $ranks ranks train"
    check "$title: with the same bits" grep -q 'bitwise identical on all ranks' "$work/stderr"
    made=$(figure "$work/turns.json" turn_operations)
    left=$(figure "$work/turns.json" turn_left_out)
    check "$title: a rank makes $made of $((made + left)) operations" test "$made" -gt 0 -a $((made * ranks * 10)) -lt $(((made + left) * 14))
    run "$ddprun" check -n "$ranks" --device softgpu "$@"
    check "$title: equal to one process that plays $ranks turns" grep -q '^equal: ' "$work/stdout"
    [ "$code" -eq 0 ] || { sed 's/^/# /' "$work/stdout" "$work/stderr"; }
}

# The folder in which patched programs run, for those that write files; and how much scout may say of one.
runs_in=$sources
words_at_most=220

# pasted NAME SOURCES PROGRAM FOLDER "COMPILED WORDS" ARGUMENT...: scouts a program that was compiled from the sources below SOURCES, puts the lines
# into the copy in FOLDER, and compiles and trains this.
pasted() {
    local name=$1 from=$2 program=$3 copy=$4 words
    read -r -d '' -a words <<<"$5" || true # up to the end
    shift 5
    cd "$from" || exit
    run "$ddprun" -q scout --patch "$work/$name.diff" "$program" "$@"
    cd "$runs_in" || exit
    check "$name: scouted" test "$code" -eq 0
    cp "$work/stdout" "$work/$name.out"
    check "$name: nothing is left to be done by hand" test "$(grep -c '^by hand' "$work/$name.out")" -eq 0
    check "$name: at most $words_at_most words" test "$(wc -w <"$work/$name.out")" -le "$words_at_most"
    check "$name: the patch applies" patch -d "$copy" -p0 --fuzz=0 -s -i "$work/$name.diff"
    level=0 compile "$copy" "$work/$name" "${words[@]}" # it has to train the same
    check "$name: the lines compile" test -x "$work/$name"
    takes_turns "$name" 2 "$work/$name" "$@"
}

# alone NAME FILE: a program of one file.
alone() {
    local file=${2##*/}
    cp -r "${2%/*}" "$work/$1.d"
    compile "$work/$1.d" "$work/$1_plain" "$file"
    pasted "$1" "$work/$1.d" "$work/$1_plain" "$work/$1.d" "$file"
}
