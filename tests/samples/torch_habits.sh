#!/usr/bin/env bash
# torch_habits.sh BUILD - how people train by libtorch (torch/habits.cpp, torch/mistakes.h): each habit ends with the parameters of one process, on 2 and on 3
# ranks, all of them one after the other in a process; what Parallel says once is said once. A mistake is named by the first line, with the
# tensor's name and the place, or by ddprun.
source "$(dirname "$0")/../end_to_end/lib.sh"
trainer=$build/tests/torch_habits
[ -x "$trainer" ] || skip "no libtorch was found when the build was configured (Debian: libtorch-dev)"
habits=(unused none sometimes adversaries thaws accumulates mixed bystanders prepares own_models again statistics)

works "alone" "$trainer" samples "${habits[@]}" --save "$work/alone"
for ranks in 2 3; do
    works "$ranks ranks" "$ddprun" -n "$ranks" --device softgpu --check-every 1 "$trainer" samples "${habits[@]}" --save "$work/of-$ranks"
    cp "$work/stderr" "$work/said"
    for habit in "${habits[@]}"; do
        check "$habit, $ranks ranks: as one process" "$compare" --quiet "$work/of-$ranks-$habit-0" "$work/alone-$habit-0" "$close"
        for ((rank = 1; rank < ranks; rank++)); do
            check "$habit, $ranks ranks: ranks 0 and $rank are bitwise the same" cmp "$work/of-$ranks-$habit-0" "$work/of-$ranks-$habit-$rank"
        done
    done
    check "$ranks ranks: nothing is said of scaled gradients" [ "$(grep -c 'gradients were scaled' "$work/said")" -eq 0 ]
    check "$ranks ranks: nothing is said of the order of epochs" [ "$(grep -c 'same order' "$work/said")" -eq 0 ]
    check "$ranks ranks: gradients that are set to none are named once for each Parallel" \
        [ "$(grep -c 'habits.cpp:[0-9]*: gradients are set to none' "$work/said")" -eq 2 ]
done

# named MISTAKE PATTERN: the job ends with 1, and a line of the header's names it.
named() {
    in_turn 2 || return 1
    run "$ddprun" -n 2 --device softgpu "$trainer" "$1"
    check "$1 ends the job" [ "$code" -eq 1 ]
    check "$1: $2" grep -Eq "^(\[1\] )?ddprun: rank [01]: [^ ]*mistakes.h:[0-9]+: $2" "$work/stderr"
}
named before_backward 'no parameter has a gradient; call step\(\) after backward\(\)'
named loses_gradient 'parameter `head.weight` has no gradient in step 2, .*find_unused_parameters\(true\)'
named steps_twice 'no parameter has a gradient; call step\(\) after backward\(\)'
named sparse 'parameter `weight` has a sparse gradient'
named moved '`convolution.weight` is in other memory than when Parallel was made'
named resized '`output.bias` has 5 elements, and had 4 when Parallel was made'
named has_holes 'parameter `column` has holes in its memory'
named sparse_parameter 'parameter `pairs` is sparse; ddprun averages dense tensors'
named two_devices 'parameter `elsewhere` is on meta, others are on cpu; move the model to one device first'
named no_such_device 'parameter `elsewhere` is on meta, and this program was compiled without'
named no_leaf 'parameter `product` is the result of an operation, and autograd keeps no gradient of it'
named seventeen 'more than 16 objects of Parallel at a time'
named integers 'parameter `count` has the type Long, which has no mean'
named no_step 'gradients were computed, and step\(\) was never called: each rank has trained by itself'
named steps_in_no_sync 'step\(\) is called while no_sync\(\) holds'
named second_model '[0-9]+ tensors are trained, the largest of \[8, 48\] Float, without a Parallel: each rank trains by itself'
named loose_parameter 'a tensor of \[2\] Float is trained without a Parallel: each rank trains by itself, and the ranks. values differ'
named sparse_in_thread 'parameter `weight` has a sparse gradient' &&
    check "what was printed before is there" grep -q 'before the backward pass' "$work/stdout"

# reported MISTAKE CODE PATTERN: by ddprun itself.
reported() {
    in_turn 2 || return 1
    run "$ddprun" -n 2 --device softgpu "$trainer" "$1"
    check "$1 ends with $2" [ "$code" -eq "$2" ]
    check "$1: $3" grep -Eq "^ddprun: $3" "$work/stderr"
}
reported update_first 1 'parameter 1 of 10 \(`convolution.weight`, .*\) differs between ranks 0 and 1 at the first DDP_STEP: .* the optimizer ran before DDP_STEP'
reported initialises_later 1 'parameter 7 of 10 \(`output.weight`, .*\) differs .* its annotation stands before its initialisation'
reported last_update 1 'parameter 6 of 10 \(`hidden.bias`, .*\) differs between ranks 0 and 1 after step 1'
reported macro_in_no_sync 1 'rank [01] .*: DDP_STEP \(.*mistakes.h:[0-9]+\) stands between DDP_NO_SYNC_BEGIN'
reported undivided 0 'the gradients of all 2 ranks are equal, bit for bit, .* all ranks train on the same data'
reported clips_first 0 '[^ ]*mistakes.h:[0-9]+: gradients were scaled between backward\(\) and step\(\), by 0.[0-9]+ on one rank' &&
    check "clips_first: one line" [ "$(grep -c 'gradients were scaled' "$work/stderr")" -eq 1 ]
reported one_order 0 'a Sampler of 12 items has the same order in two epochs, that of epoch 0: call set_epoch' &&
    check "one_order: one line" [ "$(grep -c 'same order' "$work/stderr")" -eq 1 ]
works "alone, Parallel refuses nothing" "$trainer" integers
finish
