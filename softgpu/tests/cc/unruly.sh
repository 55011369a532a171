#!/bin/bash
# unruly.sh PROGRAM - SOFTGPU_UNRULY: 100 launches of a sum by atomics have at least 10 results, whichever way the stand-in runs the kernel; seed, run, device
# and rank repeat them; without the switch there is one. SOFTGPU_CHAOS says that it is on. PROGRAM is kernels/unruly.cu, which also holds what the order must not change.
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
program=$1
kernels=7

# sums NAME VARIABLE=value...: what the program prints, in the file NAME.
sums() {
    run 0 env -u SOFTGPU_UNRULY "${@:2}" "$program"
    mv out "$1"
    [ "$(wc -l <"$1")" -eq $kernels ] || fail "it printed $(wc -l <"$1") lines, not $kernels"
}
# vary NAME LEAST MOST: of each kernel, how many results there are.
vary() {
    awk -v least="$2" -v most="$3" '$2 < least || $2 > most { exit 1 }' "$1" || fail "not $2 to $3 results: $(tr '\n' ';' <"$1")"
}
# differ ONE OTHER: each kernel's results are others.
differ() { [ "$(sort "$1" "$2" | uniq -d | wc -l)" -eq 0 ] || fail "the same results: $(sort "$1" "$2" | uniq -d)"; }

case_ 'without the switch all launches give one result'
sums tame
vary tame 1 1

case_ 'with it, at least 10 of 100, and nothing is said where the run is given'
sums unruly SOFTGPU_UNRULY=1:7
vary unruly 10 100
[ ! -s err ] || fail 'stderr is not empty'

case_ 'the same seed and run repeat them'
sums again SOFTGPU_UNRULY=1:7
cmp -s unruly again || fail 'other results'

case_ 'another run, seed, device or rank has others'
sums run SOFTGPU_UNRULY=1:8
differ unruly run
sums seed SOFTGPU_UNRULY=2:7
differ unruly seed
sums device SOFTGPU_UNRULY=1:7 SOFTGPU_DEVICES=2 CUDA_VISIBLE_DEVICES=1
differ unruly device
sums rank SOFTGPU_UNRULY=1:7 RANK=1
differ unruly rank

case_ 'a run that is not given is said, and can be given'
sums drawn SOFTGPU_UNRULY=1
differ unruly drawn
setting=$(sed -nE 's/^softgpu: SOFTGPU_UNRULY=(1:[0-9]+) repeats .*/\1/p' err)
[ -n "$setting" ] || fail 'no such line'
sums repeated "SOFTGPU_UNRULY=$setting"
cmp -s drawn repeated || fail 'other results'

case_ 'SOFTGPU_CHAOS is said, with its seed'
sums chaos SOFTGPU_CHAOS=7
says 'softgpu: SOFTGPU_CHAOS is on: work of streams is delayed and reordered. SOFTGPU_CHAOS=7 draws the same again'
cmp -s tame chaos || fail 'other results, and the program has one stream'

case_ 'several workers: everything runs, and sums vary'
sums workers SOFTGPU_UNRULY=1:7 SOFTGPU_WORKERS=3
vary workers 10 100

case_ 'what is no seed is said, and the switch is off'
sums malformed SOFTGPU_UNRULY=1:x
says 'SOFTGPU_UNRULY=1:x is neither SEED nor SEED:RUN'
cmp -s tame malformed || fail 'other results'

case_ 'a misaligned pointer to numbers, or vector, is an error for good'
for what in numbers vector; do
    run 0 env SOFTGPU_UNRULY=1:7 "$program" $what 4
    prints '716 716'
    says "kernel read_$what"
    run 0 env SOFTGPU_UNRULY=1:7 "$program" $what 16
    prints '0 0'
done

finish "$cases cases"
