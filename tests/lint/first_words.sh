#!/usr/bin/env bash
# first_words.sh - a newcomer's way is short: from the top of the README to the end of the block in which the own program is checked,
# with the first part of docs/annotations.md, which that way links to, there are 900 words at most, code included, and the README has
# 200 lines at most. A link on the way leads to a page of that way, or to one of those below, which may be read later. Pictures are
# links to no page.
# Called by tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
most_words=900 most_of_page=400 most_lines=200
to_read=docs/annotations.md # its first part
may_wait='samples/README.md docs/install.md'
success='ddprun check ./train'

# up_to_success PAGE: its text up to the end of the first block with the command.
up_to_success() {
    awk -v success="$success" '
        { print }
        /^```/ { code = !code; if (!code && found) { ended = 1; exit } }
        code && index($0, success) { found = 1 }
        END { exit !ended }' "$1"
}

way=$(up_to_success README.md) || complain "README.md: no block of code has \`$success\`"
page=$(awk '/^## / && ++parts == 2 { exit } { print }' "$to_read")
grep -qF -- "$success" <<<"$page" || complain "$to_read: its first part does not lead to \`$success\`"
grep -qF -- "]($to_read)" <<<"$way" || complain "README.md: the way to the first success does not link to $to_read"
while IFS= read -r link; do
    [[ " $to_read $may_wait " == *" $link "* ]] ||
        complain "README.md: the way to the first success links to $link: is it to be read? Then its words count; else it may wait"
done < <(grep -v '^!\[' <<<"$way" | grep -oE '\]\([^)]+\)' | sed -E 's/^\]\(|\)$//g')
of_way=$(wc -w <<<"$way") of_page=$(wc -w <<<"$page") lines=$(wc -l <README.md)
[ "$of_page" -gt 200 ] && [ "$of_way" -gt 200 ] || complain "only $of_way and $of_page words: the check looked in the wrong place"
[ "$of_page" -le "$most_of_page" ] || complain "$to_read: $of_page words in the first part, $most_of_page at most"
[ $((of_way + of_page)) -le "$most_words" ] ||
    complain "$of_way words in README.md and $of_page in $to_read up to the first success, $most_words at most"
[ "$lines" -le "$most_lines" ] || complain "README.md: $lines lines, $most_lines at most"
finish "$((of_way + of_page)) words to the first success (README.md $of_way, $to_read $of_page), $lines lines of README.md"
