#!/usr/bin/env bash
# pictures.sh - the README's pictures of a page are of today's page: what makes pages is what it was when docs/pictures/make.sh took them.
# Called by tests/run.sh; make.sh calls it with --write.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
record=docs/pictures/made_of
now=$(cat tools/page/*.c tools/page/page.{html,css,js} tools/trace/facts.c launcher/common/waiting.c | sha256sum | cut -d ' ' -f 1)
if [ "${1:-}" = --write ]; then
    printf '%s\n' "$now" >"$record"
elif [ "$now" != "$(cat "$record")" ]; then
    echo "docs/pictures/*.png are of another page; bash docs/pictures/make.sh build takes them anew (with Chromium)"
    exit 1
fi
