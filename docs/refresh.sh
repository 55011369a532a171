#!/usr/bin/env bash
# refresh.sh BUILD - writes the parts of the documents that a program makes: README.md's difference of the two programs of samples/digits,
# and in docs/performance.md the figures of bench/partition, which is arithmetic and prints the same everywhere. Prints at last how many
# words a newcomer reads up to the first success, a number to keep below 900. Run by people; no test asks for it.
set -euo pipefail
[ $# -eq 1 ] || {
    echo 'Usage: bash docs/refresh.sh BUILD' >&2
    exit 2
}
build=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# replace_block PAGE MARKER BLOCK: the block of code that follows the line MARKER becomes BLOCK.
replace_block() {
    local page=$1 marker=$2 block=$3 text
    grep -qxF -e "$marker" "$page" || {
        echo "refresh.sh: $page has no line: $marker" >&2
        exit 1
    }
    text=$(MARKER=$marker BLOCK=$block awk '
        $0 == ENVIRON["MARKER"] { print; print ENVIRON["BLOCK"]; replacing = 1; next }
        replacing && !inside && /^```/ { inside = 1; next }
        replacing && inside { if (/^```$/) { replacing = 0; inside = 0 } next }
        { print }' "$page")
    printf '%s\n' "$text" >"$page"
}

# The difference without names of files and numbers of lines.
readme_diff() {
    printf '```diff\n'
    diff -U1 samples/digits/main_plain.c samples/digits/main.c | tail -n +3 | sed 's/^@@ .*/@@/' || true
    printf '```\n'
}

# All figures but those of single models.
partition_figures() {
    printf '```\n'
    "$build/bench/partition" | sed 's/ *$//' | sed -E '/^(resnet50|bert-large|gpt2-124m|small-tensors), |^all models, one bucket/d'
    printf '```\n'
}

# The README up to the end of the block in which the user's own program is checked, and the first part of docs/annotations.md.
words_to_first_success() {
    local way page
    way=$(awk '{ print } /^```/ { code = !code; if (!code && found) exit } code && /ddprun check \.\/train/ { found = 1 }' README.md | wc -w)
    page=$(awk '/^## / && ++parts == 2 { exit } { print }' docs/annotations.md | wc -w)
    echo "$((way + page)) words to the first success: README.md $way, docs/annotations.md $page"
}

replace_block README.md '<!-- diff of samples/digits/main_plain.c and main.c: written by docs/refresh.sh -->' "$(readme_diff)"
replace_block docs/performance.md '<!-- output of build/bench/partition: written by docs/refresh.sh -->' "$(partition_figures)"
words_to_first_success
