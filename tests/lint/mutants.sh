#!/usr/bin/env bash
# mutants.sh - tests/mutants.txt names each deliberate defect of tests/woven.txt once, and no other; each of them is asked for by a test;
# and none stands in a source of the product.
# Called by tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib.sh
table=tests/mutants.txt
names() { awk '/^[A-Z]/ { print $1 }' "$table" | sort; }
woven() { grep -ohE '\bMUTANT\([A-Z0-9_]+\)' tests/woven.txt | sed 's/^MUTANT(\(.*\))$/\1/' | sort -u; }
diff <(names) <(woven) || complain "^ in $table (<) and in tests/woven.txt (>)"
for name in $(names); do
    grep -rqwF --include='*.sh' --include='*.c' "$name" tests || complain "$table: no test asks for $name"
done
! grep -rnE --include='*.[ch]' '\bMUTANT\(' bucketing comm interpose launcher tools || complain "^ in the product: put it into tests/woven.txt"
finish "$(names | wc -l) mutants, none in the product"
