#!/usr/bin/env bash
# halves.sh BUILD - the program halves/, untouched, whose gradients are float16, by a plan by gradients on 2 and 3 ranks, tame and unruly: the weights have the
# bits of one process that adds up in float32. An engine that sends float16 as it is has others.
source "$(dirname "$0")/../../end_to_end/lib.sh"
program=$build/tests/tools/plan/halves
watch_leftovers
cd "$work" || exit 1

export XDG_CACHE_HOME=$work/cache # plans are kept there

# train LAUNCHER RANKS: by a plan.
train() {
    rm -f weights
    run "$1" -n "$2" --device softgpu --share-gpu --timeout 60 --plan auto --by gradients --yes --slow "$program" --save weights
}

for ranks in 2 3; do
    "$program" --oracle-gradients $ranks --save wanted-$ranks
    train "$ddprun" $ranks
    succeeded "$ranks ranks"
    check "$ranks ranks: the bits of float32 means" cmp weights wanted-$ranks
    SOFTGPU_UNRULY=3 train "$ddprun" $ranks
    succeeded "$ranks ranks, unruly"
    check "$ranks ranks, unruly: the bits of float32 means" cmp weights wanted-$ranks
done

# On a GPU, $ddprun is a script that is not to be copied.
mutant=$build/tests/mutants/libddprun-engine.so
if [ "$(head -c 2 "$ddprun")" != '#!' ] && [ -e "$mutant" ]; then
    mkdir -p broken/bin broken/lib/softgpu
    cp "$ddprun" broken/bin/
    ln -s "$build"/lib/libddprun*.so broken/lib/
    ln -sf "$mutant" broken/lib/libddprun-engine.so
    ln -s "$build"/lib/softgpu/* broken/lib/softgpu/
    DDPRUN_MUTANT=HALVES_NOT_WIDENED train broken/bin/ddprun 3
    check "HALVES_NOT_WIDENED trains to the end" test "$code" -eq 0
    check "HALVES_NOT_WIDENED is noticed" bash -c "! cmp -s weights wanted-3"
fi
check "leaves no process" within 5 none_left
finish
