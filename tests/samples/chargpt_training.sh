#!/usr/bin/env bash
# chargpt_training.sh BUILD - without ddprun, the annotated sample prints and saves byte for byte what the plain one does. A run repeats byte for byte, also
# with several workers and in disorder; another seed does not. A training that continued from a checkpoint ends as one that never stopped. The losses are those
# of the plain C reference to 1e-4; and it learns.
set -euo pipefail
build=$(cd "$1" && pwd)
data=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/samples/data/shakespeare.txt
programs=$build/samples
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
options=(--data "$data" --layers 2 --width 64 --heads 4 --context 32 --batch 8 --eval-every 3 --eval-batches 2)

cd "$work"
train plain chargpt_plain --steps 9 --sample 50
train again chargpt_plain --steps 9 --sample 50
train annotated chargpt --steps 9 --sample 50
train other chargpt_plain --steps 9 --sample 50 --seed 2
SOFTGPU_WORKERS=3 SOFTGPU_CHAOS=1 train workers chargpt_plain --steps 9 --sample 50
same plain again
same plain workers
same plain annotated
check "there is a sample of 50 characters" [ "$(tail -n +4 plain.out | wc -c)" -ge 51 ]
unlike plain other "$programs/compare"

# The first part of the training writes its checkpoint in the middle; the second continues from there.
train first chargpt_plain --steps 5 --checkpoint half --checkpoint-every 4
train middle chargpt_plain --steps 4 --checkpoint middle
train second chargpt --steps 9 --resume half --sample 50
check "from a checkpoint it ends as one that never stopped" cmp plain.params second.params
check "and prints the same" cmp <(tail -n +2 plain.out) second.out # without the line of step 3
train third chargpt --steps 9 --resume middle
check "from a checkpoint of its end, too" cmp plain.params third.params

# The plain C reference.
for shape in "" "--layers 1 --heads 1 --context 7 --batch 3" "--accumulate 3 --clip 0.1 --width 20" "--layers 4 --lr 0.01 --warmup 0"; do
    read -r -a words <<<"$shape"
    train ours chargpt_plain --steps 6 --eval-every 1 "${words[@]}"
    timeout -k 1 100 "$build/bench/chargpt_reference" "${options[@]}" --steps 6 --eval-every 1 "${words[@]}" </dev/null >theirs.out
    check "losses are those of the reference, $shape" awk '
        function far(a, b) { return !(a - b < 1e-4 && b - a < 1e-4) }
        $1 != "step" || $2 != $8 || far($4, $10) || far($6, $12) { print; bad = 1 }
        END { exit bad || NR != 6 }' <(paste -d' ' ours.out theirs.out)
done

# A uniform guess costs log(65) = 4.17, the frequencies of the characters 3.3.
train learned chargpt_plain --steps 60 --eval-every 60
check "60 steps teach more than frequencies" awk '{ exit !($6 < 2.9) }' learned.out
finish
