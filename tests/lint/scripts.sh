#!/usr/bin/env bash
# scripts.sh - shellcheck has no warning about our scripts. Called by tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
command -v shellcheck >/dev/null || {
    echo "skipped: no shellcheck"
    exit 77
}
mapfile -t files < <(find cmake samples tests -name '*.sh' | sort)
files+=(.ci/run)
shellcheck --severity=warning "${files[@]}"
printf '%d scripts\n' "${#files[@]}"
