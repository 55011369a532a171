#!/usr/bin/env bash
# chargpt_training.sh BUILD - without ddprun, the annotated sample prints and saves byte for byte what the plain one does. A run
# repeats byte for byte, also with several workers and in disorder; another seed does not. A training that continued
# from a checkpoint ends as one that never stopped. The losses are those of the plain C reference to 1e-4; and it
# learns.
set -euo pipefail
build=$(cd "$1" && pwd)
data=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/samples/data/shakespeare.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
options=(--data "$data" --layers 2 --width 64 --heads 4 --context 32 --batch 8 --eval-every 3 --eval-batches 2)

# train NAME PROGRAM OPTIONS...: stdout and parameters into NAME.out and NAME.params.
train() {
    local name=$1 program=$2
    shift 2
    timeout -k 1 100 "$build/$program" "${options[@]}" --save "$work/$name.params" "$@" </dev/null >"$work/$name.out" 2>"$work/$name.err" || {
        cat "$work/$name.err"
        exit 1
    }
}
same() {
    cmp "$1.out" "$2.out" && cmp "$1.params" "$2.params" || bad=1
}
cd "$work"
train plain samples/chargpt_plain --steps 9 --sample 50
train again samples/chargpt_plain --steps 9 --sample 50
train annotated samples/chargpt --steps 9 --sample 50
train other samples/chargpt_plain --steps 9 --sample 50 --seed 2
SOFTGPU_WORKERS=3 SOFTGPU_CHAOS=1 train workers samples/chargpt_plain --steps 9 --sample 50
same plain again
same plain workers
same plain annotated
[ "$(tail -n +4 plain.out | wc -c)" -ge 51 ] || {
    echo "there is no sample of 50 characters"
    bad=1
}
# The comparisons must be able to say no, or the lines above show nothing.
if cmp -s plain.params other.params || "$build/samples/compare" --quiet plain.params other.params 1e-3 >/dev/null; then
    echo "another seed gave the same parameters"
    bad=1
fi

# The first part of the training writes its checkpoint in the middle; the second continues from there.
train first samples/chargpt_plain --steps 5 --checkpoint half --checkpoint-every 4
train middle samples/chargpt_plain --steps 4 --checkpoint middle
train second samples/chargpt --steps 9 --resume half --sample 50
cmp plain.params second.params || bad=1
cmp <(tail -n +2 plain.out) second.out || bad=1 # without the line of step 3
train third samples/chargpt --steps 9 --resume middle
cmp plain.params third.params || bad=1

# The plain C reference.
for shape in "" "--layers 1 --heads 1 --context 7 --batch 3" "--accumulate 3 --clip 0.1 --width 20" "--layers 4 --lr 0.01 --warmup 0"; do
    read -r -a words <<<"$shape"
    train ours samples/chargpt_plain --steps 6 --eval-every 1 "${words[@]}"
    timeout -k 1 100 "$build/bench/chargpt_reference" "${options[@]}" --steps 6 --eval-every 1 "${words[@]}" </dev/null >theirs.out
    paste -d' ' ours.out theirs.out | awk -v shape="$shape" '
        function far(a, b) { return !(a - b < 1e-4 && b - a < 1e-4) }
        $1 != "step" || $2 != $8 || far($4, $10) || far($6, $12) { print shape ": " $0; bad = 1 }
        END { if (NR != 6) { print shape ": " NR " lines instead of 6"; bad = 1 } exit bad }' || bad=1
done

# A uniform guess costs log(65) = 4.17, the frequencies of the characters 3.3.
train learned samples/chargpt_plain --steps 60 --eval-every 60
awk '{ exit !($6 < 2.9) }' learned.out || {
    echo "60 steps should teach more than this:"
    cat learned.out
    bad=1
}
exit "$bad"
