#!/usr/bin/env bash
# tokens.sh BUILD - batches whose words look like addresses cost no overlap and end nothing: tokens, mostly-zero bfloat16 numbers and
# dark images, copied in each step before or within backward, with memory where a large GPU has it. A pointer into a gradient among
# them is found wherever it stands. DDPRUN_SOAK=1 runs all seeds and all offsets, and one run of 10,000 steps.
source "$(dirname "$0")/lib.sh"
limit=120
tokens=$build/tests/trainers/tokens
[ "$sanitized" -eq 1 ] || export SOFTGPU_ADDRESSES=real # but where a shadow lies there
seeds=(1) stride=1028 soak=${DDPRUN_SOAK:-0}
if [ "$soak" = 1 ]; then
    mapfile -t seeds < <(seq 20)
    limit=1200 stride=4
fi

# batches KIND WHEN STEPS SEED: all steps but the first three, which are learned from, are overlapped; no gradient is deferred.
batches() {
    works "$*" "$ddprun" -n 2 --bucket-mb 0.005 "$tokens" "$@"
    local overlapped
    overlapped=$(sed -n 's/^ddprun: .* \([0-9]*\) of them overlapped.*/\1/p' "$work/stderr")
    check "$*: 99 % of the steps overlap" [ "$((100 * ${overlapped:-0}))" -ge "$((99 * ($3 - 3)))" ]
    check "$*: nothing is held" bash -c "! grep -Eq 'averaged at DDP_STEP|held the address' '$work/stderr'"
}

for kind in int32 bfloat16 image; do
    for when in before within; do
        for seed in "${seeds[@]}"; do
            batches "$kind" "$when" "$((sanitized ? 60 : 300))" "$seed"
        done
    done
done
[ "$soak" != 1 ] || batches int32 within 10000 1

# sweep FIRST STRIDE COUNT: of COUNT gradients all but the last are found.
sweep() {
    works "pointers at $1, $2 apart, to $3 gradients" "$ddprun" -n 2 "$tokens" sweep "$@"
    check "... each is found" grep -q "^ddprun: $(($3 - 1)) of $3 gradients are averaged at DDP_STEP" "$work/stderr"
}

# Places 0 to 65534 of 4 bytes each: a stride of 1,028 takes them all in a few hundred, at 257 places of blocks of 256 bytes.
last=$((65536 * 4 - 8))
for ((first = 0; first <= last; first += 4095 * stride)); do
    count=$(((last - first) / stride + 1))
    [ "$count" -le 4095 ] || count=4095
    sweep "$first" "$stride" "$((count + 1))"
done
sweep "$((last - 4 * 255))" 4 257

# Found in a step that overlaps, and used from then on.
for offset in 0 "$((RANDOM % 65535 * 4))" "$last"; do
    for when in before within; do
        works "a pointer at $offset, $when backward" "$ddprun" -n 2 --bucket-mb 0.005 "$tokens" int32 "$when" 20 1 "$offset"
        check "... says that overlap is lost" grep -q '^ddprun: in step 9 a copy to the device held the address of gradient 1 of 6' \
            "$work/stderr"
    done
done
finish
