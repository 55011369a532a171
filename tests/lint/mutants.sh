#!/usr/bin/env bash
# mutants.sh - tests/mutants.txt names each deliberate defect of tests/woven.txt once, and no other; each of them is asked for by a test;
# and none stands in a source of the product.
# Called by tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
table=tests/mutants.txt
names() { awk '/^[A-Z]/ { print $1 }' "$table" | sort; }
woven() { grep -ohE '\bMUTANT\([A-Z0-9_]+\)' tests/woven.txt | sed 's/^MUTANT(\(.*\))$/\1/' | sort -u; }
bad=0
if ! diff <(names) <(woven); then
    echo "^ in $table (<) and in tests/woven.txt (>)"
    bad=1
fi
for name in $(names); do
    grep -rqwF --include='*.sh' --include='*.c' "$name" tests || {
        echo "$table: no test asks for $name"
        bad=1
    }
done
if grep -rnE --include='*.[ch]' '\bMUTANT\(' bucketing comm interpose launcher tools; then
    echo "^ in the product: put it into tests/woven.txt"
    bad=1
fi
[ "$bad" -eq 0 ] && printf '%s mutants, none in the product\n' "$(names | wc -l)"
exit "$bad"
