#!/usr/bin/env bash
# digits_input.sh PROGRAM - the sample trainer refuses a damaged data file with exit code 1 and one line that names the file, the
# line and what is wrong, and a wrong command line with exit code 2. All of it happens before the first CUDA call.
set -euo pipefail
sample=digits
program=$1
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
data=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/samples/data/digits.csv

# damage SED-SCRIPT PATTERN: the file, edited.
damage() {
    head -n 200 "$data" | sed -E "$1" >"$work/data.csv"
    expect 1 "^digits: $work/data\.csv:$2" --data "$work/data.csv"
}
damage '3s/^0,/x,/' '3: field 1 of 65 is not a number'
damage '3s/,/;/' '3: expected a comma after number 1 '
damage '3s/,[0-9]$//' '3: the line ends after 64 of 65 numbers'
damage '3s/$/,5/' '3: expected the end of the line after 65 numbers'
damage '3s/^0,/17,/' '3: number 1 of 65 is 17, allowed is 0 to 16'
damage '3s/^0,/-1,/' '3: number 1 of 65 is -1, allowed'
damage '3s/^0,/99999999999999999999,/' '3: number 1 of 65 is 9+, allowed'
damage '3s/[0-9]$/10/' '3: number 65 of 65 is 10, allowed is 0 to 9'
damage '3s/.*//' '3: the line ends after 0 of 65 numbers'
damage '200s/,[0-9]+,[0-9]+$//' '200: the line ends after 63 of 65'
printf '0,1\0,2\n' >"$work/data.csv"
expect 1 'data\.csv:1: the line holds a zero byte' --data "$work/data.csv"
: >"$work/data.csv"
expect 1 'data\.csv: holds 0 images' --data "$work/data.csv"
expect 1 'absent\.csv: cannot open' --data "$work/absent.csv"
expect 1 "$work:1: cannot read" --data "$work"

expect 2 'batch 2000: there are only 1437 training images' --data "$data" --batch 2000
expect 2 'batch 0: expected a whole number' --batch 0
expect 2 'batch 9x: expected a whole number' --batch 9x
expect 2 'steps -1: expected a whole number' --steps -1
expect 2 'seed 99999999999999999999: expected' --seed 99999999999999999999
expect 2 'lr nan: expected a positive number' --lr nan
expect 2 'lr 0: expected a positive number' --lr 0
expect 2 'bogus: no such option' --bogus
expect 2 'steps: wants a value' --steps
expect 2 'stray: expected options only' stray
finish
