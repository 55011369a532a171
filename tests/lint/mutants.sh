#!/usr/bin/env bash
# mutants.sh - tests/lib/mutants.txt names each deliberate defect of tests/lib/woven.txt once, and no other; each of them is asked for by a test;
# and none stands in a source of the product.
# Called by tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
table=tests/lib/mutants.txt
names() { awk '/^[A-Z]/ { print $1 }' "$table" | sort; }
woven() { grep -ohE '\bMUTANT\([A-Z0-9_]+\)' tests/lib/woven.txt | sed 's/^MUTANT(\(.*\))$/\1/' | sort -u; }
diff <(names) <(woven) || complain "^ in $table (<) and in tests/lib/woven.txt (>)"
for name in $(names); do
    grep -rqwF --include='*.sh' --include='*.[ch]' "$name" tests || complain "$table: no test asks for $name"
done
! grep -rnE --include='*.[ch]' '\bMUTANT\(' bucketing comm interpose launcher tools || complain "^ in the product: put it into tests/lib/woven.txt"
finish "$(names | wc -l) mutants, none in the product"
