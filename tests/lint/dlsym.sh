#!/usr/bin/env bash
# dlsym.sh - the shim overrides dlsym(), so its own sources must not call it: the call would come back to the override, and
# RTLD_NEXT would mean something else. They use dlvsym() or their own look-up. Called by tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
files=(interpose/shim/*.c interpose/shim/libraries/*.c)
[ -e "${files[0]}" ] || {
    echo "interpose/shim holds no C file: the check looked in the wrong place"
    exit 1
}
bad=0
for file in "${files[@]}"; do
    # Comments and strings out, lines kept; then any use of the name: a call, or its address taken.
    found=$(awk '
        {
            line = $0
            gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
            out = ""
            while (length(line) > 0) {
                if (inside) {
                    end = index(line, "*/")
                    if (end == 0) { line = ""; break }
                    line = substr(line, end + 2); inside = 0
                } else {
                    start = index(line, "/*")
                    if (start == 0) { out = out line; line = ""; break }
                    out = out substr(line, 1, start - 1); line = substr(line, start + 2); inside = 1
                }
            }
            sub(/\/\/.*/, "", out)
            if (out ~ /(^|[^A-Za-z0-9_])dlsym([^A-Za-z0-9_]|$)/)
                printf "%s:%d: uses dlsym: %s\n", FILENAME, FNR, $0
        }' "$file")
    if [ -n "$found" ]; then
        printf '%s\n' "$found"
        bad=1
    fi
done
[ "$bad" -eq 0 ] && printf 'no use of dlsym in %d files\n' "${#files[@]}"
exit "$bad"
