#!/usr/bin/env bash
# noise_scale.sh BUILD - the gradient noise scale of a quadratic whose gradients have a known covariance is within 15 % of its value, on
# 2, 4 and 8 ranks, packed and in place, in items and in batches; it is one number in all outputs, and is not said where it is none: ranks
# on the same data, unlike shares, weights, sums, too wide a spread. It adds at most 1 % to the bytes that ranks send.
source "$(dirname "$0")/lib.sh"
trainer=$build/tests/trainers/noise_scale
sentence='the critical batch size (gradient noise scale) is about'

# train RANKS [DDPRUN'S OPTIONS...] -- OPTIONS...
train() {
    local ranks=$1 options=()
    shift
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    works "$ranks ranks, ${options[*]} ${*:2}: ends well" "$ddprun" -n "$ranks" -v --device softgpu --summary-json "$work/end.json" "${options[@]}" "$trainer" "${@:2}"
    # "N items" or "N times": what is said
    said=$(sed -n "s/^ddprun: $sentence \([0-9.]*\) \(items\|times\).*/\1 \2/p" "$work/stderr")
}

# within_15 NAME UNIT BATCH: of the value that the trainer has printed, which is in items; BATCH: as many of them are one of the unit, an
# item or a rank's batch.
within_15() {
    check "$1: $said, $(sed -n 's/^noise scale //p' "$work/stdout") items" awk -v said="${said% *}" -v unit="${said#* }" -v each="$3" -v wanted="$2" \
        '/^noise scale/ { value = $3 / each; good = unit == wanted && said > 0.85 * value && said < 1.15 * value } END { exit !good }' "$work/stdout"
}
not_said() {
    check "$1: nothing is said" [ -z "$said" ]
    check "$1: nor in the summary" grep -q '"noise_scale": null' "$work/end.json"
}

for ranks in 2 4 8; do
    train "$ranks" -- --sigma 100
    within_15 "$ranks ranks" items 1
    grep -q '"batch": 8.0' "$work/end.json"
    check "$ranks ranks: the run's own batch" [ $? -eq 0 ]
done
in_turn 2 && { # the noise is 30 times the gradient
    train 4 -- --sigma 200 --flat 1 --steps 3000
    within_15 "in place" items 1
    train 2 -- --sigma 100 --flat 1 --count 50000 --steps 600
    within_15 "in place, parts of a larger bucket in turn" items 1
}
in_turn 2 && {
    train 2 -- --shard 0 --sigma 100
    within_15 "without DDP_SHARD" times 4
}
in_turn 2 && { # a step has 3 batches of 8 items
    train 2 -- --passes 3 --sigma 100
    within_15 "over several backward passes" items 1
    check "the batch is that of all passes" grep -q '"batch": 24.0' "$work/end.json"
}
in_turn 2 && {
    train 2 --compress bf16 -- --sigma 100
    within_15 "in 16 bits" items 1
}
in_turn 2 && { # such a step is left out
    train 2 -- --sick 5 --sigma 100
    within_15 "with NaN in some steps" items 1
}

train 4 -- --same 1
not_said "the same items on all ranks"
train 4 -- --items 10
not_said "shares of unlike size"
train 2 -- --weigh 1
not_said "weights"
train 2 --reduce sum -- --sigma 100
not_said "sums"
train 2 -- --sigma 4000 --count 4
not_said "too wide a spread"
train 2 -- --steps 200
not_said "too few steps"

# One figure, wherever it stands.
train 2 --bucket-mb 25 --page "$work/page.html" --metrics "$work/metrics" -- --sigma 100 --count 30000 --steps 400
text=$(sed -n 's/^ddprun: \('"$sentence"'.*\)/\1/p' "$work/stderr")
check "the summary has the sentence" grep -qF "\"text\": \"$text\"" "$work/end.json"
check "the page, too" grep -qF "<p>By the gradients, $text.</p>" "$work/page.html"
check "the metrics have the number" awk -v said="${said% *}" \
    '/^ddprun_noise_scale_items/ { found = $NF > 0.99 * said && $NF < 1.01 * said } END { exit !found }' "$work/metrics"
run "$ddprun" -n 2 --device softgpu "$trainer" --sigma 100
check "without -v no line" [ "$(grep -c "$sentence" "$work/stderr")" -eq 0 ]

# Of bytes on the wire, words of the norms are at most a hundredth.
COUNT_NCCL=$work/count train 2 --nccl "$build/tests/end_to_end/libcount_nccl.so" -- --sigma 100 --count 30
within_15 "behind a counter" items 1
check "squares are gathered, and are at most 1 % of what is reduced" awk '{ ++ranks; if ($2 == 0 || 100 * $2 > $1) bad = 1 } END { exit bad || ranks != 2 }' "$work"/count.*
finish
