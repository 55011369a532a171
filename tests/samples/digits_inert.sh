#!/usr/bin/env bash
# digits_inert.sh FOLDER - without ddprun, the annotated trainer prints and saves byte for byte what the plain one does; a run repeats byte
# for byte; another seed does not. FOLDER holds digits, digits_plain and compare.
set -euo pipefail
programs=$1
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
data=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/samples/data/digits.csv
options=(--data "$data" --steps 60 --log-every 7)
train plain digits_plain --seed 1
train again digits_plain --seed 1
train annotated digits --seed 1
train other digits_plain --seed 2
same plain again
same plain annotated
check "60 steps teach most of it" grep -q '^test accuracy 0\.[89]' "$work/plain.out"
unlike plain other "$programs/compare"
check "compare finds no difference where there is none" "$programs/compare" --quiet "$work/plain.params" "$work/again.params" 0
finish
