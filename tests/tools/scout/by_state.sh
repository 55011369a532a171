#!/usr/bin/env bash
# by_state.sh BUILD - turns by state: `ddprun scout --by state --prove` proves the plans of programs of which no gradient can be averaged
# in one place, and refuses what it must, by name; `--plan auto` takes that way where gradients cannot be proved.
# Plans that say something else than the program does: mistaken.sh.
source "$(dirname "$0")/../../end_to_end/lib.sh"
export TMPDIR=$work/tmp XDG_CACHE_HOME=$work/cache
mkdir "$TMPDIR"
fused=$build/tests/trainers/fused habits=$build/tests/tools/scout/habits
cd "$work" || exit 1

# proved NAME PROGRAM...: all is proved.
proved() {
    run "$ddprun" -q --device softgpu scout --by state --prove --json "$work/plan.json" "${@:2}"
    check "$1: it is proved" test "$code" -eq 0
    check "$1: by both proofs" test "$(grep -c -E '^proof .(complete|d).: passed' "$work/stdout")" -eq 2
}
# refused NAME WORDS PROGRAM...
refused() {
    run "$ddprun" -q --device softgpu scout --by state --prove "${@:3}"
    check "$1: it is refused" test "$code" -eq 1
    check "$1: it says why" grep -q "$2" "$work/stderr"
}
proved 'the update is in the gradient' "$fused" gemm
proved 'several averages' "$habits" two
proved 'gradients are made anew' "$habits" realloc
refused 'a graph' 'launches a CUDA graph' "$habits" captured
refused 'a launch between steps' 'between steps, such as validation, reads memory that an earlier step wrote' "$build/tests/tools/scout/reads" kept
refused 'what may be trained, and is called carried' 'halves of a batch do not show' --per-rank a6 "$build/tests/tools/scout/public_nets" whole
proved 'a launch between steps that uses what the last one has left' "$build/tests/tools/plan/habits" batch-hits
proved 'a stream that only copies, into one buffer' "$build/tests/tools/plan/habits" copy-stream

# Hits of each item are overwritten in each step: they are zeros and ones, no whole numbers among floats, and nothing that is kept.
run "$ddprun" -q --device softgpu scout --prove "$build/tests/tools/plan/habits" item-hits
check 'hits of each item: not kept, and proved' test "$(grep -c -E 'statistics|random state|^proof .d.: passed' "$work/stdout")" -eq 1
check 'hits of each item: proof (d)' grep -q '^proof .d.: passed' "$work/stdout"

# --plan auto: by gradients no plan can be, so it is by state.
auto() {
    run "$ddprun" -n 2 --device softgpu --share-gpu --timeout 60 --plan auto --yes --slow "$@"
}
auto "$fused" gemm
check 'auto: it trains' test "$code" -eq 0
check 'auto: by state, and it says why' grep -q 'the ranks average state and not gradients: ' "$work/stderr"
check 'auto: what is averaged and compared is called state' test "$(grep -c -E '; 8 state tensors, .* in 1 bucket$|; 4224 elements of state, 0 of gradients$' "$work/stderr")" -eq 2
check 'auto: the losses that it prints are of one batch' grep -q 'the program prints the loss of each batch' "$work/stderr"
auto --by state "$build/tests/tools/plan/habits" ring
check 'auto: sums that it prints are of all ranks' grep -q 'the program prints the sums above over all ranks' "$work/stderr"
run "$ddprun" -n 5 --device softgpu --share-gpu --timeout 60 --reads owner --plan auto --by state --yes --slow "$build/tests/tools/plan/habits" ring
check 'auto: a history that is shorter than a round is refused' grep -q 'may begin again within a round of 5 ranks' "$work/stderr"
auto --by gradients "$fused" gemm
check 'auto: --by gradients is refused' test "$code" -eq 1
run "$ddprun" -n 2 --device softgpu --share-gpu --by state "$fused" gemm
check '--by without a plan is refused' test "$code" -eq 2

finish
