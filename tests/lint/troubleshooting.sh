#!/usr/bin/env bash
# troubleshooting.sh - what docs/troubleshooting.md quotes of messages, ddprun says: each quotation that begins an entry is a part of a
# message in the sources. And no message names a page of docs/, which lies elsewhere where ddprun is installed. Called by tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
page=docs/troubleshooting.md
sources=$(mktemp)
quotes=$(mktemp)
at_exit 'rm -f "$sources" "$quotes"'
# Sources with adjacent string literals joined, as the compiler does.
mapfile -d '' -t files < <(find launcher tools interpose comm base softgpu \( -name '*.[ch]' -o -name '*.def' -o -name '*.in' -o -name '*.py' \) -print0 | sort -z)
cat "${files[@]}" | tr '\n' ' ' | sed -E 's/" +"//g; s/\\"/"/g' >"$sources"
# Entries begin with "- **`...`**"; what others than ddprun say is marked "(the loader's own words)" and the like.
tr '\n' ' ' <"$page" | sed -E 's/ +/ /g; s/ - \*\*/\n- **/g; s/ ## /\n## /g' | grep -E '^- \*\*`' | grep -vE "\((the loader's own|CUDA's) words\)" |
    sed -E 's/^([^:]*`\*\*)[^`]*:.*/\1/' | grep -oE '\*\*`[^`]*`' | sed -E 's/^\*\*`|`$//g' >"$quotes"
# Below an entry, "  - *...*" quotes the part of its message that distinguishes cases.
grep -E '^  - \*[^*]' "$page" | sed 's/:.*//' | grep -oE '\*[^*]+\*' | tr -d '*' >>"$quotes"
! awk -F '"' '!/_Static_assert/ { for (i = 2; i <= NF; i += 2) if ($i ~ /docs\/[a-z-]+\.md/) print FILENAME ": " $i }' "${files[@]}" | grep . ||
    complain "^ a message names a page of the sources; name a man page instead (ddprun.h, ddprun-troubleshooting)"
while IFS= read -r quote; do # one that is not found beside the others may lie inside another one
    grep -qF -- "$quote" "$sources" || complain "$page: nothing in the sources says: $quote"
done < <(grep -oFf "$quotes" "$sources" | sort -u | grep -vxFf - "$quotes")
[ "$(wc -l <"$quotes")" -gt 50 ] || complain "$page: only $(wc -l <"$quotes") entries were understood"
finish "$(wc -l <"$quotes") quotations"
