#!/usr/bin/env bash
# words.sh - finds the words of words.txt: paths of one machine and notes to oneself in all files, riddles in what a user reads. A list of
# words is no judgement of a sentence: a reader decides. Called by tests/run.sh; words_test.sh is its test.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib/lib.sh"
list=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/words.txt
cd "${WORDS_ROOT:-$(dirname "${BASH_SOURCE[0]}")/../..}"
mapfile -t files < <(find .ci base bucketing cmake comm docs interpose launcher samples softgpu tests tools -type f \
    ! -name '*.csv' ! -path samples/data/shakespeare.txt ! -path 'tests/lint/words*' | sort)
files+=(CMakeLists.txt CMakePresets.json README.md CONTRIBUTING.md)
mapfile -t sources < <(find base comm interpose launcher softgpu tools -type f \( -name '*.[ch]' -o -name '*.def' \) | sort)
mapfile -t documents < <(find docs softgpu/docs -type f \( -name '*.md' -o -name '*.in' \) | sort)
documents+=(README.md CONTRIBUTING.md)
mapfile -t -O ${#documents[@]} documents < <(find base bucketing cmake comm interpose launcher samples softgpu tools tests -name README.md | sort)

# FILE:LINE:STRING, for each string of a C source.
strings=$(grep -noHE '"([^"\]|\\.)*"' "${sources[@]}" || true)
[ "$(wc -l <<<"$strings")" -ge "${WORDS_STRINGS:-3000}" ] || complain "only $(wc -l <<<"$strings") strings: they were looked for in the wrong place"

while IFS= read -r row; do
    where=${row%% | *} rest=${row#* | }
    pattern=${rest% | *} instead=${rest##* | }
    case $where in
    everywhere) found=$(grep -nHIE -e "$pattern" "${files[@]}" || true) ;;
    said) found=$(grep -E -e "$pattern" <<<"$strings" || true && grep -nHE -e "$pattern" "${documents[@]}" || true) ;;
    *) found="words.txt: $where is neither everywhere nor said" ;;
    esac
    [ -z "$found" ] || complain "$found"$'\n'"^ write: $instead"
done < <(grep -v '^#' "$list")
finish "${#files[@]} files"
