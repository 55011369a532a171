#!/usr/bin/env bash
# mutants.sh - tests/mutants.txt names each deliberate defect of the code once, and no other; and each of them is asked for by a test.
# Called by tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
table=tests/mutants.txt
names() { awk '/^[A-Z]/ { print $1 }' "$table" | sort; }
coded() { grep -rohE --include='*.[ch]' '\bMUTANT\([A-Z0-9_]+\)' bucketing comm interpose launcher tools | sed 's/^MUTANT(\(.*\))$/\1/' | sort -u; }
bad=0
if ! diff <(names) <(coded); then
    echo "^ in $table (<) and in the code (>)"
    bad=1
fi
for name in $(names); do
    grep -rqwF --include='*.sh' --include='*.c' "$name" tests || {
        echo "$table: no test asks for $name"
        bad=1
    }
done
[ "$bad" -eq 0 ] && printf '%s mutants\n' "$(names | wc -l)"
exit "$bad"
