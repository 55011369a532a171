#!/usr/bin/env bash
# names.sh - a public function's name is defined in one file of the product: a search for the name finds the function, and no other
# one beside it. Functions that several libraries define for one caller are listed below. Called by tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
# ddprun_engine_start: each library that can be the engine has one. rename: hooks of libc's function.
shared='ddprun_engine_start rename'

# Lines NAME KIND FILE. A definition's name begins its line, after a line that has its type.
definitions=$(find base bucketing comm interpose launcher tools -name '*.c' -print0 | LC_ALL=C sort -z | xargs -0 awk '
    match($0, /^[a-z][A-Za-z0-9_]*\(/) { print substr($0, 1, RLENGTH - 1), before ~ /^static/ ? "static" : "public", FILENAME }
    { before = $0 }')
count=$(wc -l <<<"$definitions")
[ "$count" -gt 2000 ] || complain "only $count functions: they were looked for in the wrong place"
twice=$(awk -v shared=" $shared " '
    $2 == "public" { public[$1] = 1 }
    { ++files[$1]; where[$1] = where[$1] " " $3 }
    END {
        for (name in public)
            if (files[name] > 1 && index(shared, " " name " ") == 0)
                printf "%s() is public, and other files define one, too:%s\n", name, where[name]
    }' <<<"$definitions")
[ -z "$twice" ] || complain "$twice"$'\n'"^ a name with its subject tells them apart"
finish "$count functions"
