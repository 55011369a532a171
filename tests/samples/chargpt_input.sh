#!/usr/bin/env bash
# chargpt_input.sh PROGRAM - the sample refuses a wrong command line with exit code 2, and a text or a checkpoint that it cannot use
# with exit code 1, each with one line that says what is wrong.
set -euo pipefail
sample=chargpt
program=$1
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
data=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/samples/data/shakespeare.txt

expect 2 'layers 0: expected a whole number from 1 to 24' --layers 0
expect 2 'width 257: expected a whole number from 1 to 256' --width 257
expect 2 'width 100: must be a multiple of --heads 3' --width 100 --heads 3
expect 2 'batch -1: expected a whole number' --batch -1
expect 2 'batch 65536: too large' --batch 65536
expect 2 'steps 1x: expected' --steps 1x
expect 2 'lr nan: expected a number from 0 to 1' --lr nan
expect 2 'temperature 0: expected a number' --temperature 0
expect 2 'seed 99999999999999999999: expected a whole number' --seed 99999999999999999999
expect 2 'checkpoint-every 5: --checkpoint says where' --checkpoint-every 5
expect 2 'bogus: no such option' --bogus
expect 2 'steps: wants a value' --steps
expect 2 'stray: expected options only' stray

expect 1 'absent: No such file' --data "$work/absent"
expect 1 "$work: Is a directory" --data "$work"
: >"$work/short"
expect 1 'short: 0 characters are too few' --data "$work/short"
head -c 600 "$data" >"$work/short"
expect 1 'short: 600 characters are too few: a --context of 64 needs at least 650' --data "$work/short"

small=(--layers 1 --width 16 --heads 2 --context 8 --batch 2 --eval-batches 1 --eval-every 100 --quiet --data "$data")
file=$work/checkpoint
timeout -k 1 60 "$program" "${small[@]}" --steps 3 --checkpoint "$file" </dev/null
timeout -k 1 60 "$program" "${small[@]}" --steps 4 --resume "$file" </dev/null
size=$(stat -c %s "$file")
[ "$(find "$work" -name 'checkpoint*' | wc -l)" -eq 1 ] || complain "a temporary file is left:" "$work"/checkpoint*

# damaged OFFSET BYTE PATTERN: the checkpoint with one byte replaced.
damaged() {
    cp "$file" "$work/damaged"
    printf '%b' "$2" | dd of="$work/damaged" bs=1 seek="$1" conv=notrunc status=none
    ! cmp -s "$file" "$work/damaged" || complain "byte $1 is $2 already"
    expect 1 "damaged: $3" "${small[@]}" --resume "$work/damaged"
}
damaged 0 'C' 'is no checkpoint of chargpt'
damaged 8 '\007' 'has version 7, this program reads 1'
damaged 12 '\003' 'is of another network: made with --layers 3 --width 16 --heads 2 --context 8'
damaged 28 '\005' 'was made with a text of other characters'
damaged 32 '\011' 'is damaged: its checksum does not fit' # the step
damaged 41 '\377' 'is damaged: the number of parameters'
damaged 50 'z' 'was made with a text of other characters'
damaged 2000 'z' 'is damaged: its checksum does not fit'
damaged $((size - 20)) 'z' 'is damaged: its checksum does not fit'
damaged $((size - 1)) 'z' 'is damaged: its checksum does not fit'
for length in 0 100 303 304 2000 $((size - 8)) $((size - 1)); do
    head -c "$length" "$file" >"$work/damaged"
    expect 1 'damaged: is damaged: it ends' "${small[@]}" --resume "$work/damaged"
done
{ cat "$file" && echo; } >"$work/damaged"
expect 1 'damaged: is damaged: it has more bytes' "${small[@]}" --resume "$work/damaged"
expect 1 'absent: No such file' "${small[@]}" --resume "$work/absent"
expect 1 'checkpoint: is of another network' "${small[@]}" --width 32 --resume "$file"
head -c 100000 "$data" | tr 'e' 'E' >"$work/other"
expect 1 'checkpoint: was made with a text of other' "${small[@]}" --data "$work/other" --resume "$file"
expect 1 'absent/file.*: No such file' "${small[@]}" --steps 1 --checkpoint "$work/absent/file"
finish
