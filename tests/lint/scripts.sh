#!/usr/bin/env bash
# scripts.sh - shellcheck has no warning about our scripts; and those that source tests/lib/lib.sh make all of their cases: `finish` is
# their last line and nowhere else, and the EXIT trap is left to at_exit. Called by tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh

mapfile -t files < <(find cmake samples softgpu tests -name '*.sh' | sort)
files+=(.ci/run)
# Scripts begin with #!; what they source, tests/lib/lib.sh or what brings it along, does not.
mapfile -t sourced < <(grep -L '^#!' "${files[@]}")
mapfile -t libraries < <(grep -lE '^ *source .*/(lib|cluster|hosts|launched)\.sh"?$' "${sourced[@]}")
libraries+=(tests/lib/lib.sh softgpu/tests/lib/lib.sh)
names=$(printf '%s\n' "${libraries[@]##*/}" | sed 's/\.sh$//' | sort -u | paste -sd'|' -)
users=0
for file in "${files[@]}"; do
    grep -qE "^ *source .*\b($names)\.sh\"?\$" "$file" || continue
    ! grep -nE '^[^#]*\btrap .* EXIT' "$file" || complain "$file: use at_exit, of tests/lib/lib.sh"
    [[ " ${sourced[*]} " != *" $file "* ]] || continue
    users=$((users + 1))
    calls=$(grep -cE '^([^#]*[ ;|&{(])?finish($|[ ;|&)])' "$file") || true
    [ "$calls" -eq 1 ] && [[ $(tail -n 1 "$file") =~ ^finish($|\ ) ]] || complain "$file: \`finish\` is its last line, and nowhere else; here: $calls times"
done
[ "$users" -gt 50 ] || complain "only $users scripts source tests/lib/lib.sh: the check looked in the wrong place"

command -v shellcheck >/dev/null || skip "no shellcheck"
# With what they source scripts take three times as long. Ordinarily those of the last ten commits do, and a quarter of the others (chosen)
# is read alone: `set -u`, which all with cases have, finds a name without a variable.
followed=("${files[@]}")
if [ "${DDPRUN_SOAK:-0}" != 1 ] && recent=$(git log -10 --format= --name-only 2>/dev/null && git diff HEAD --name-only); then
    mapfile -t followed < <(printf '%s\n' "${files[@]}" | grep -Fx -f <(sort -u <<<"$recent"))
    printf '%s\n' "${files[@]}" | grep -vFx -f <(sort -u <<<"$recent") | awk "NR % 4 == $((part % 4))" |
        xargs -r -n 1 shellcheck --severity=warning --exclude=SC2034,SC2154 || complain "^ shellcheck"
fi
[ ${#followed[@]} -eq 0 ] || shellcheck -x --severity=warning "${followed[@]}" || complain "^ shellcheck"
finish "${#files[@]} scripts, $users with cases"
