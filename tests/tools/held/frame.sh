#!/usr/bin/env bash
# frame.sh BUILD - held.sh itself, on a small corpus whose programs are rows: its measure.sh finds the annotation header and prints the row of
# the program. The score, the exit code and the file of --scores are as the rows are, and the corpus stays unwritten.
source "$(dirname "$0")/../../end_to_end/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
corpus=$work/small

# program SERIES/PROGRAM ROW...: one of check, whose row measure.sh prints.
program() {
    mkdir -p "$corpus/${1%/*}"
    printf '%s.cu; the truth of it\n' "${1#*/}" >>"$corpus/${1%/*}/truth.txt"
    printf '%s\n' "${*:2}" >"$corpus/$1.row"
}

# scouted SERIES/PROGRAM ROW...: one of scout.
scouted() {
    mkdir -p "$corpus/$1"
    printf '%s\n' "${*:2}" >"$corpus/$1.row"
}

# held WORD...: runs held.sh on the corpus. Its cases and the scores are in $work/stdout.
held() {
    DDPRUN_CORPUS=$corpus run bash "$here/../held.sh" "$build" "$@"
}

# listing: each file of the corpus, with its bytes and its time.
listing() {
    find "$corpus" -printf '%p %s %T@ %m\n' | LC_ALL=C sort
}

says() { # NAME LINE
    check "$1" grep -qxF -e "$2" "$work/stdout"
}

program check/right_01_equal right_01_equal 0 - - equal
program check/right_02_accused right_02_accused 1 - - different
program check/wrong_01_named wrong_01_named 3 yes yes different
program check/wrong_02_equal wrong_02_equal 0 yes yes equal
program check2/wrong_01_no_line wrong_01_no_line 1 no yes different
program check2/wrong_02_no_operand wrong_02_no_operand 1 yes no different
program check10/wrong_01_no_truth wrong_01_no_truth 1 - - different
scouted scout/01_equal 01_equal 0 90 0 0 0 equal
scouted scout/02_no_patch 02_no_patch 1 90 - - - refused
scouted scout2/01_different 01_different 0 90 0 0 1 different
missed=(check/{right_02_accused,wrong_02_equal} check2/wrong_0{1_no_line,2_no_operand} scout/02_no_patch scout2/01_different)
printf '%s\n' "${missed[@]}" >"$corpus/missed.txt"
cat >"$corpus/check/measure.sh" <<'END'
cd "$(dirname "${BASH_SOURCE[0]}")/$SERIES" && [ -e ../../../interpose/include/ddprun.h ] && [ -d "$KEEP" ] && [ -x "$1/bin/ddprun" ] || exit 1
touch written
echo 'program and its columns'
cat "$2.row"
END
cp "$corpus/check/measure.sh" "$corpus/scout/measure.sh"
listing >"$work/before"

held --scores "$work/scores"
succeeded 'all that is missed is listed'
cat >"$work/expected" <<'END'
check      2 of   4 found, 2 missed
check2     0 of   2 found, 2 missed
check10    1 of   1 found, 0 missed
scout      1 of   2 found, 1 missed
scout2     0 of   1 found, 1 missed
in all     4 of  10 found, 6 missed
END
check 'the score of each series, in their order, and of all' diff "$work/expected" <(tail -n 6 "$work/stdout")
check 'no program is named as gained' test "$(grep -c '^found, and listed' "$work/stdout")" -eq 0
check 'a result for each program' test "$(wc -l <"$work/scores")" -eq 10
check 'missed are those that are listed' diff <(sed -n 's/ missed$//p' "$work/scores" | sort) <(printf '%s\n' "${missed[@]}" | sort)
check 'found are the others' test "$(grep -c ' found$' "$work/scores")" -eq 4
check 'the corpus is unwritten' diff "$work/before" <(listing)

held check2
succeeded 'a pattern'
check 'the programs that match are judged alone' test "$(grep -c '^ok - check2/' "$work/stdout") $(tail -n 1 "$work/stdout")" = \
    '2 in all     0 of   2 found, 2 missed'
held 'check3/'
check 'no program matches: it fails' test "$code" -eq 1

sed -i /wrong_02_equal/d "$corpus/missed.txt"
held
check 'a program that is missed and not listed fails' test "$code" -eq 1
says '... by name' 'not ok - check/wrong_02_equal (it is missed, and missed.txt of the corpus does not list it)'
check '... alone' test "$(grep -c '^not ok' "$work/stdout")" -eq 1
echo check/wrong_02_equal >>"$corpus/missed.txt"

echo check/wrong_01_named >>"$corpus/missed.txt"
held
succeeded 'a program that is listed and found does not fail'
says '... and is named' 'found, and listed as missed: check/wrong_01_named'

echo 'check does not compile' >"$corpus/check/wrong_02_equal.row"
held
check 'a program without a row fails, although it is listed' test "$code" -eq 1
says '... by name' 'not ok - check/wrong_02_equal (measure.sh has printed no row for it)'

rm "$corpus/missed.txt"
held
check 'a folder that is no corpus: exit code 2' test "$code" -eq 2
check '... and one line that says why' test "$(grep -c "^held.sh: DDPRUN_CORPUS=$corpus: there is no missed.txt" "$work/stderr") $(wc -l <"$work/stderr")" = '1 1'
for words in --score "--scores $work/none/scores" --scores; do
    # shellcheck disable=SC2086 # words
    held $words
    check "$words: exit code 2" test "$code" -eq 2
done
DDPRUN_CORPUS='' run bash "$here/../held.sh" "$build"
check 'without a corpus it is skipped, and says how to get one' test "$code $(grep -c '^skipped: .*unpack the corpus' "$work/stdout")" = '77 1'
finish
