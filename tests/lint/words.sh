#!/usr/bin/env bash
# words.sh - no place of one machine, no promise of later work, no idiom, and no riddle in what a user reads: messages (strings of C
# sources, adjacent literals joined) and documents. Called by tests/run.sh; words_test.sh is its test.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib/lib.sh"
cd "${WORDS_ROOT:-$(dirname "${BASH_SOURCE[0]}")/../..}"
mapfile -t files < <(find .ci base bucketing cmake comm docs interpose launcher samples softgpu tests tools -type f \
    ! -name '*.csv' ! -path samples/data/shakespeare.txt ! -path tests/lint/words.sh ! -path 'tests/held/*' | sort)
files+=(CMakeLists.txt CMakePresets.json README.md CONTRIBUTING.md)
mapfile -t messages < <(find base comm interpose launcher softgpu tools -type f \( -name '*.[ch]' -o -name '*.def' \) | sort)
mapfile -t documents < <(find docs -type f \( -name '*.md' -o -name '*.in' \) | sort)
documents+=(README.md CONTRIBUTING.md)

forbid() {
    ! grep -nHIE -e "$2" "${files[@]}" || complain "^ $1"
}

# strings: each string of the messages' sources, as FILE: STRING.
strings() {
    awk '
        function put(parts, count, i) {
            gsub(/\\"/, "\047", text)
            gsub(/\047"\047/, "", text)
            gsub(/(^|[ \t\n])\/\*([^*]|\*+[^*\/])*\*+\//, " ", text)
            gsub(/"[ \t\n]+"/, "", text)
            count = split(text, parts, "\"")
            for (i = 2; i <= count; i += 2)
                print name ": " parts[i]
        }
        FNR == 1 { if (name != "") put(); text = ""; name = FILENAME }
        { text = text "\n" $0 }
        END { put() }' "${messages[@]}"
}

# riddle WHAT_INSTEAD PATTERN [FILE...]: in a string, or in one of the files.
riddle() {
    if grep -E -e "$2" <<<"$strings" || { [ $# -gt 2 ] && grep -nHE -e "$2" "${@:3}"; }; then
        complain "^ a riddle: $1"
    fi
}
forbid 'a path of one machine' '(^|[^A-Za-z0-9_.])/(work|home|root)/[a-z]'
forbid 'a note to oneself: do it, or refuse it with a clear error' '\b(TODO|FIXME|XXX|HACK)\b|not implemented yet|[Ff]or now,'
forbid 'an idiom: name the subject, and use the term of the field' \
    '\b([Nn]obody|[Ss]omebody|[Ww]hoever|[Ee]verybody|that is none|told of|is told|in words|for want of|of ours|of our own|[Mm]end(s|ed|ing)?)\b'

strings=$(strings)
count=$(grep -c . <<<"$strings" || true)
[ "$count" -ge "${WORDS_STRINGS:-3000}" ] || complain "only $count strings: they were looked for in the wrong place"
riddle '"after" is for time and order, "behind" for places' \
    '[Bb]ehind (a|each|every|this|that) (step|bucket|update|launch|average|wait|copy|pass)\b|[Bb]ehind (step|bucket|update) ([0-9]|%)' "${documents[@]}"
riddle 'name the subject: no rank, no process, no option' 'which nothing does|annotated as nothing|\bruns still\b' "${documents[@]}"
riddle '"with N of X", or a sentence of its own' '[Oo]f which '
riddle 'name what alternates: one batch on each rank, for example' '[Bb]y turns'
riddle '"not", "no X", or the number 0' ' (is|are|has|have) none([ ,.;:]|$)'
riddle 'name the thing; no clause in its place' '(^|[,;:(] )of what '
riddle '"continues"' '(^|([Rr]anks?|program|job|training|run|process|backward)( [0-9]+)? )(go|goes|went) on\b' "${documents[@]}"
riddle '"again", or "a new X"' '\banew\b' "${documents[@]}"
riddle '"is not known", or "scout cannot tell"' 'cannot be told' "${documents[@]}"
riddle '"proportional to"; "differs from"; "equal on all ranks"' '(in proportion to|and not (as|in|like) (in|on|one)\b|(is|are|must be) alike)'
riddle '"by the plan X is a sum, but ..."' 'is called (a|an|constant) '
riddle 'name it: the findings, the recording, the last events' '\b[Ww]hat (was|is) (found|recorded)\b|what it did last' "${documents[@]}"
riddle 'say the form itself' ', as [A-Za-z_]+ has it\b' "${documents[@]}"
riddle '"within noise", "the largest": a private word for a figure' '\bas its floor\b|\bat worst\b' "${documents[@]}"
riddle 'use the field'"'"'s term: strong scaling, critical batch size, efficiency, "slow kernels by"' '\bworth (it|its cost)\b|longer per step while|with it had been'
riddle 'say whose figures: "a printed loss is that of the share"' 'figures of its share'
finish "${#files[@]} files, $count strings"
