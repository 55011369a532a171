#!/usr/bin/env bash
# sizes_test.sh - sizes.sh refuses a folder above its row, one far below it, a sum that is above what it was in any commit, and a row
# that rises without a word about what was deleted; it takes a sum whose number an issue has, and a folder without history. It counts
# scripts and styles of pages, and no program that measures. Called by tests/run.sh.
set -euo pipefail
source "$(dirname "$0")/planted/lib.sh"
cd "$work"
mkdir -p base tests/lint

# table ISSUE LINES SUM [ROW...]: a table for one folder, which has LINES lines.
table() {
    printf '%s\n' "issue $1" "base core $2" "sum core $3" "${@:4}" >tests/lint/sizes.txt
    seq "$2" >base/code.c
}

# expect PATTERN WHAT: sizes.sh says a line that matches PATTERN, or passes if it is empty.
expect() {
    finds "$1" "$2" env "SIZES_ROOT=$work" bash "$lint/sizes.sh" build
}

commit() {
    git add -A
    git -c user.name=test -c user.email=test@localhost commit -qm "$1"
}

table A 500 500
expect '' 'a table without history'
git init -q .
table A 400 400 'allow A core 10'
commit 'A table of before'
table A 500 500
commit 'The first one whose sums are never raised'
expect '' 'a sum above one of before'
seq 501 >base/code.c
expect '^base: 501 lines, .* allows 500\.' 'a folder above its row'
seq 300 >base/code.c
expect '^base: 300 lines; lower its row' 'a folder far below its row'
for ending in js css html; do
    seq 500 >base/code.c
    seq 1 >"base/page.$ending"
    expect '^base: 501 lines, .* allows 500\.' "a file .$ending"
    rm "base/page.$ending"
done
mkdir tests/held
seq 1000 >tests/held/measure.c
expect '' 'a program that measures'
table B 490 490
commit 'Lower it'
expect '' 'a sum that falls'
table B 500 500
expect '^all of core: 500 lines .* which had 490' 'a sum that rises to what it was'
commit 'Raise it'
expect '^all of core: 500 lines .* which had 490' 'a sum that has risen'
table B 501 501
expect '^base: 501 lines .* 500 before this issue; no commit' 'a row that rises'
commit $'Say something\n\nsizes base: a helper of the other folder'
expect '^all of core: 501 lines .* which had 490' 'a row that says why, and a sum that rises'
table B 505 505
commit $'An issue has the number\n\nsum core: 505, issue B'
expect '' 'a sum whose number an issue has'
table B 506 506
commit 'One more'
expect '^all of core: 506 lines .* which had 505' 'a sum that rises behind it'
finish 'sizes.sh holds rows and sums, by history'
