#!/usr/bin/env bash
# words_test.sh - words.sh finds a word of each row of words.txt, in a message, in a document, and those of `everywhere` in a comment; it is
# silent about the others in comments. Called by tests/run.sh.
set -euo pipefail
source "$(dirname "$0")/planted/lib.sh"
cd "$work"
mkdir -p .ci base bucketing cmake comm docs interpose launcher samples softgpu tests tools
touch CMakeLists.txt CMakePresets.json README.md CONTRIBUTING.md

# expect PATTERN WHAT: words.sh says a line that matches PATTERN, or passes if it is empty.
expect() {
    finds "$1" "$2" env "WORDS_ROOT=$work" WORDS_STRINGS=1 bash "$lint/words.sh" build
}

clean() {
    echo 'const char *text = "Ranks wait after step %d.";' >launcher/code.c
    echo 'Averages are launched.' >docs/page.md
}

clean
expect '' 'plain words'
everywhere=('see /home/ann/notes' 'a TODO' 'nobody waits' 'the rank is told' 'mends it')
said=('ranks compute by turns' '3 steps, of which 1' 'make it anew' 'the type cannot be told')
[ $((${#everywhere[@]} + ${#said[@]})) -eq "$(grep -vc '^#' "$lint/words.txt")" ] || complain "not one sample for each row of words.txt"
for sample in "${everywhere[@]}" "${said[@]}"; do
    clean
    echo "const char *text = \"$sample\";" >launcher/code.c
    expect '^launcher/code\.c:1:' "a message: $sample"
    clean
    echo "$sample" >docs/page.md
    expect '^docs/page\.md:1:' "a document: $sample"
done
clean
echo "/* ${everywhere[1]} */ const char *text = \"\";" >launcher/code.c
expect '^launcher/code\.c:1:' "a comment: ${everywhere[1]}"
echo "/* ${said[0]} */ const char *text = \"\";" >launcher/code.c
expect '' "a comment: ${said[0]}"
: >launcher/code.c
WORDS_STRINGS=2
finds '^only 1 strings' 'no string' env "WORDS_ROOT=$work" WORDS_STRINGS=2 bash "$lint/words.sh" build
finish 'each word is found'
