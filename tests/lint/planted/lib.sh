# shellcheck shell=bash disable=SC2034,SC2154 # the scripts that source it use its variables
# lib.sh - what the tests of checks share: a folder of their own, in which a check is to find what is planted there. Sourced.
# shellcheck source=tests/lib/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../lib/lib.sh"
lint=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-planted-XXXXXX")
at_exit 'rm -rf "$work"'

# finds PATTERN WHAT COMMAND...: the check, a command, says a line that matches PATTERN, with exit code 1; or passes if that is empty.
finds() {
    local pattern=$1 what=$2 output code=0
    output=$("${@:3}" 2>&1) || code=$?
    if [ "$code" -eq 77 ]; then
        skip "${output#skipped: }"
    elif [ -z "$pattern" ] && [ "$code" -ne 0 ]; then
        complain "$what: not silent:"$'\n'"$output"
    elif [ -n "$pattern" ] && { [ "$code" -ne 1 ] || ! grep -qE "$pattern" <<<"$output"; }; then
        complain "$what: not found (exit code $code):"$'\n'"$output"
    fi
}
