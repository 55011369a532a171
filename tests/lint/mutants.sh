#!/usr/bin/env bash
# mutants.sh - tests/mutants.txt names each deliberate defect of the code and of tests/woven.txt once, and no other; each of them is asked
# for by a test; and the product has no more places for them than it had.
# Called by tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
table=tests/mutants.txt
most=72 # places; only where a broken point of the product can show that a test works
names() { awk '/^[A-Z]/ { print $1 }' "$table" | sort; }
in_product() { grep -rohE --include='*.[ch]' '\bMUTANT\([A-Z0-9_]+\)' bucketing comm interpose launcher tools; }
coded() { { in_product && grep -ohE '\bMUTANT\([A-Z0-9_]+\)' tests/woven.txt; } | sed 's/^MUTANT(\(.*\))$/\1/' | sort -u; }
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
places=$(in_product | wc -l)
if [ "$places" -ne "$most" ]; then
    echo "$places places in the product, this check has $most: put others into tests/woven.txt, and lower the number"
    bad=1
fi
[ "$bad" -eq 0 ] && printf '%s mutants, %s places in the product\n' "$(names | wc -l)" "$places"
exit "$bad"
