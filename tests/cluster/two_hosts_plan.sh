#!/usr/bin/env bash
# two_hosts_plan.sh BUILD - `--plan FILE` on two hosts: unannotated programs, by gradients and by state, whose host reads a loss in each
# step and validates, train four ranks there to the bits of `ddprun -n 4` on one host, and print the same figures: what the host reads
# of another machine's steps is that machine's.
# shellcheck source=tests/cluster/cluster.sh
source "$(dirname "$0")/cluster.sh"
export HOME=$work/home XDG_CACHE_HOME=$work/cache BY_ADDRESS=h1 DDPRUN_READS=owner
mkdir -m 700 "$HOME"
unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT "${!PET_@}"
note_quiet
habits=$build/tests/tools/plan/habits

# Ranks 0 and 1 on h1, 2 and 3 on h2.
# shellcheck disable=SC2016 # the processes' shells expand it
launch=(bash "$(dirname "$0")/by_variables.sh" -n 4 bash -c 'host=h1; [ "$RANK" -lt 2 ] || host=h2; exec "$0" "$host" "$@"' "$hosts_runner")

# alike HABIT BY: on two hosts as on one.
alike() {
    local name="$1 by $2" of=("$1" --steps 45)
    run "$ddprun" -q --device softgpu scout --by "$2" --prove --json "$work/plan.json" "$habits" "${of[@]}"
    succeeded "$name: a plan"
    run "$ddprun" -n 4 -q --device softgpu --share-gpu --plan "$work/plan.json" "$habits" "${of[@]}" --save "$work/alone"
    succeeded "$name: on one host"
    cp "$work/stdout" "$work/alone.out"
    run "${launch[@]}" "$ddprun" -q --device softgpu --share-gpu --interface eth0 --plan "$work/plan.json" "$habits" "${of[@]}" --save "$work/apart"
    succeeded "$name: on two"
    check "$name: the same bits" cmp "$work/alone" "$work/apart"
    check "$name: the same figures" cmp "$work/alone.out" "$work/stdout"
    clean "$name"
}
alike validation gradients
alike batch-hits gradients
alike validation state
alike plateau state
finish
