#!/usr/bin/env bash
# words.sh - no place of one machine, no promise of later work and no riddles in what is handed out. Called by tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
bad=0
mapfile -t files < <(find .ci base bucketing cmake comm docs interpose launcher samples softgpu tests tools -type f \
    ! -name '*.csv' ! -path samples/data/shakespeare.txt ! -path tests/lint/words.sh | sort)
files+=(CMakeLists.txt CMakePresets.json README.md CONTRIBUTING.md)

forbid() {
    local why=$1 pattern=$2
    if grep -nHIE -e "$pattern" "${files[@]}"; then
        printf '%s\n' "^ $why"
        bad=1
    fi
}
forbid 'a path of one machine' '(^|[^A-Za-z0-9_.])/(work|home|root)/[a-z]'
forbid 'a note to oneself: do it, or refuse it with a clear error' '\b(TODO|FIXME|XXX|HACK)\b|not implemented yet|[Ff]or now,'
forbid 'an idiom: name the subject, and use the term of the field' \
    '\b([Nn]obody|[Ss]omebody|[Ww]hoever|[Ee]verybody|that is none|told of|is told|in words|for want of|of ours|of our own|[Mm]end(s|ed|ing)?)\b'
[ "$bad" -eq 0 ] && printf '%d files\n' "${#files[@]}"
exit "$bad"
