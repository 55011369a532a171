#!/usr/bin/env bash
# torch.sh BUILD - the sample in libtorch trains with 2 and 3 ranks what one process trains, on the same batches, though it calls no CUDA:
# its parameters are the same up to the order of sums, its printed losses the same, and `ddprun check` finds it equal. A job's messages have
# the names of the model's tensors. What Parallel annotated is forgotten at its end, so nothing is said of freed memory.
source "$(dirname "$0")/../end_to_end/lib.sh"
trainer=$build/samples/torch_digits
[ -x "$trainer" ] || skip "no libtorch was found when the build was configured (Debian: libtorch-dev)"
options=(--data "$data" --epochs 2)

works "alone" "$trainer" "${options[@]}" --save "$work/serial"
cp "$work/stdout" "$work/serial.out"
check "alone: it learns" awk 'NR == 1 { first = $NF } END { exit !(NR == 2 && $NF < first / 2) }' "$work/serial.out"
for ranks in 1 2 3; do
    works "$ranks ranks" "$ddprun" -n "$ranks" --device softgpu --check-every 1 "$trainer" "${options[@]}" --save "$work/rank-%d"
    check "$ranks ranks: the same losses" cmp "$work/stdout" "$work/serial.out"
    check "$ranks ranks: serial up to the order of sums" "$compare" --quiet "$work/rank-0" "$work/serial" "$close"
    check "$ranks ranks: nothing is said of freed memory" [ -z "$(grep 'at the end of the program' "$work/stderr")" ]
    [ "$ranks" -gt 1 ] || continue
    same_on_all_ranks "$ranks ranks" "$ranks"
    check "$ranks ranks: compared at every step and at the end" grep -q 'compared 58 times, last after step 58 of 58' "$work/stderr"
    check "$ranks ranks: tensors have their names" grep -qF 'gradient 1 of 4 (`input.weight`, 3072 float32, main.cpp:' "$work/stderr"
done

works "ddprun check" "$ddprun" --device softgpu check --steps 8 "$trainer" "${options[@]}"
check "ddprun check finds it equal" grep -q '^equal: 2 ranks compute what one process computes' "$work/stdout"
check "ddprun check says why ddprun scout finds nothing" grep -q '^not exercised: .* the program has not used CUDA' "$work/stdout"

# The same training in Python, where there is a torch for it: DistributedDataParallel with 2 ranks, with the same weights and batches.
python=
for candidate in python3 /usr/bin/python3; do
    ! "$candidate" -c 'import torch; torch._C._distributed_c10d.ProcessGroupGloo' 2>/dev/null || python=$candidate
done
if [ -z "$python" ]; then
    echo "skipped: a comparison with DistributedDataParallel (no Python here has torch with gloo)"
elif in_turn 2; then
    python_rank() {
        timeout -k 2 "$(patient 120)" "$python" "$(dirname "$0")/torch/ddp.py" "$1" 2 "$data" "$work/python" </dev/null >"$work/python.$1" 2>&1
    }
    python_rank 1 &
    python_rank 0 || cat "$work/python.0"
    wait $!
    run "$ddprun" -n 2 --device softgpu "$trainer" "${options[@]}" --save "$work/rank-%d"
    check "2 ranks: DistributedDataParallel over gloo ends with the same parameters" "$compare" --quiet "$work/rank-0" "$work/python" "$close"
fi
finish
