#!/usr/bin/env bash
# two_hosts_plan.sh BUILD - `--plan` on two hosts: unannotated programs, by gradients and by state, whose host reads a loss in each
# step and validates, train four ranks there to the bits of `ddprun -n 4` on one host, and print the same figures: what the host reads
# of another machine's steps is that machine's. The plan's file is on the first host alone; with `--plan auto` that host makes it, under
# each launcher. A plan that is not made, or whose making is ended, ends all hosts, with one line.
source "$(dirname "$0")/cluster.sh"
export HOME=$work/home XDG_CACHE_HOME=$work/cache BY_ADDRESS=h1 DDPRUN_READS=owner
mkdir -m 700 "$HOME"
unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT "${!PET_@}"
note_quiet
habits=$build/tests/tools/plan/habits

# Ranks 0 and 1 on h1, 2 and 3 on h2, where no plan is.
launch=(bash "$(dirname "$0")/by_variables.sh" -n 4 bash -c
    'host=h1 DDPRUN_PLAN=$0; [ "$RANK" -lt 2 ] || host=h2 DDPRUN_PLAN=/nonexistent; export DDPRUN_PLAN; exec "$1" "$host" "${@:2}"' "$work/plan.json"
    "$hosts_runner")

apart=(bash "$(dirname "$0")/by_variables.sh" -n 4 env "DDPRUN_PLAN=$work/plan.json" "$hosts_runner" h1)

# alike HABIT BY: on two hosts as on one.
alike() {
    local name="$1 by $2" of=("$1" --steps 45)
    works "$name: a plan" "$ddprun" -q --device softgpu scout --by "$2" --prove --json "$work/plan.json" "$habits" "${of[@]}"
    works "$name: on one host" "$ddprun" -n 4 -q --device softgpu --share-gpu --plan "$work/plan.json" "$habits" "${of[@]}" --save "$work/alone"
    cp "$work/stdout" "$work/alone.out"
    works "$name: on two" "${launch[@]}" "$ddprun" -q --device softgpu --share-gpu --interface eth0 "$habits" "${of[@]}" --save "$work/apart"
    check "$name: the same bits" cmp "$work/alone" "$work/apart"
    check "$name: the same figures" cmp "$work/alone.out" "$work/stdout"
    works "$name: on one host, each rank by its own ddprun" "${apart[@]}" "$ddprun" -q --device softgpu --share-gpu --interface eth0 --hang-timeout 60 "$habits" "${of[@]}" \
        --save "$work/apart"
    check "$name: the same bits there" cmp "$work/alone" "$work/apart"
    check "$name: the same figures there" cmp "$work/alone.out" "$work/stdout"
    clean "$name"
}
alike batch-hits gradients
alike validation state
alike plateau state
alike validation gradients

# ---- --plan auto ----
on_both() { # ARGUMENTS...: a ddprun on each host, whose outputs are in $work/h1 and $work/h2, exit codes in one and two.
    local host
    rm -f "$work/h1" "$work/h2"
    for host in h1 h2; do
        (hosts_exec "$host" env "XDG_CACHE_HOME=$work/cache-$host" "$ddprun" --nnodes 2 --node-rank $((${host#h} - 1)) --master h1 -n 2 \
            --device softgpu --interface eth0 --plan auto --yes --slow "$@" </dev/null >"$work/$host" 2>&1) &
        declare -g "started_$host=$!"
    done
}
started_h1='' started_h2=''
both_end() {
    wait "$started_h1"
    one=$?
    wait "$started_h2"
    two=$?
}
lines() { [ "$(grep -c '^ddprun: ' "$work/$1")" -eq "$2" ]; }

# made NAME LAUNCHER...: the first host makes the plan, or takes the one that is kept, and all follow it.
made() {
    local name=$1
    shift
    run "$@" --device softgpu --share-gpu --interface eth0 --by gradients --plan auto --yes --slow -q "$habits" validation --steps 45 --save "$work/apart"
    succeeded "$name: --plan auto"
    check "$name: the same bits" cmp "$work/alone" "$work/apart"
    check "$name: the host reads the same figures" cmp "$work/alone.out" "$work/stdout"
    clean "$name"
}
for round in anew kept; do
    on_both --by gradients "$habits" validation --steps 45 --save "$work/apart"
    both_end
    check "$round: both end well" [ "$one $two" = '0 0' ]
    check "$round: the same bits" cmp "$work/alone" "$work/apart"
    check "$round: the other host waits for it" grep -q '^ddprun: host h2 waits for the plan, which rank 0 makes on host h1$' "$work/h2"
    check "$round: it makes and keeps none" [ ! -e "$work/cache-h2/ddprun/plans" ]
    check "$round: a round of four is not held against the proof's of two" grep -q 'ranks took [^(]* times as fast as one process' "$work/h1"
    clean "$round"
done
check "the first host has made it once" bash -c "! grep -q 'is scouted' '$work/h1' && [ -d '$work/cache-h1/ddprun/plans' ]"

on_both "$habits" validation --steps 3
both_end
check "no plan: both end" [ "$one $two" = '1 1' ]
check "no plan: the first says why" grep -q '^ddprun: rank 0 (host h1): the program ended after .* operations and repeated nothing' "$work/h1"
check "no plan: so does the other, once" grep -q '^ddprun: the ddprun of rank 0 (host h1) ends the job: rank 0 (host h1): the program ended after' "$work/h2"
check "no plan: and nothing else" lines h2 2
clean "no plan"
on_both --timeout 3 sleep 300
both_end
check "no end: both end" [ "$one $two" = '1 1' ]
check "no end: the first says why" grep -q '^ddprun: rank 0 (host h1): the program made 0 operations in 3 s' "$work/h1"
clean "no end"
on_both sleep 300
check "SIGTERM: they wait" within 30 grep -q 'waits for the plan' "$work/h2"
kill -TERM "$started_h1"
both_end
check "SIGTERM: both end, $one $two" [ "$one" -eq 143 -a "$two" -ne 0 ]
clean "SIGTERM"

if command -v mpirun >/dev/null; then
    OMPI_MCA_plm_rsh_agent=$hosts_agent made mpirun "$hosts_runner" h1 mpirun --allow-run-as-root --host h1:2,h2:2 -n 4 --bind-to none "$ddprun"
fi
if command -v srun >/dev/null && command -v slurmd >/dev/null; then
    source "$(dirname "$0")/slurm.sh"
    slurm_up
    run "$hosts_runner" h1 srun -N2 -n4 --ntasks-per-node=2 true # the daemons have started all that they keep
    note_quiet
    for kind in pmix none; do
        made "srun --mpi=$kind" "$hosts_runner" h1 srun "--mpi=$kind" -N2 -n4 --ntasks-per-node=2 "$ddprun"
    done
fi
finish
