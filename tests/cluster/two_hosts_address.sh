#!/usr/bin/env bash
# two_hosts_address.sh BUILD - two hosts, without PMIx: one ddprun on each (--nnodes; an Indexed Job; PyTorchJob's PET_NNODES), or one for each
# rank (RANK, WORLD_SIZE and MASTER_ADDR; torchrun's variables; Slurm's). Each time four ranks train as one process does, and as `ddprun -n 4`, bit
# by bit; ranks know their places on a host; a rank that is killed is named, with its host; a job begins anew; and nothing is left.
source "$(dirname "$0")/cluster.sh"
export HOME=$work/home BY_ADDRESS=h1
mkdir -m 700 "$HOME"
unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT "${!PET_@}"
note_quiet

# The processes' shells expand what is quoted below; by_variables.sh has set RANK and the like. The loop uses each by its name.
# shellcheck disable=SC2034
ranks_on='host=h1; [ "$RANK" -lt 2 ] || host=h2; exec "$0" "$host" "$@"' # 0 and 1 on h1, 2 and 3 on h2
by_variables=$(dirname "$0")/by_variables.sh
variables=(bash "$by_variables" -n 4 bash -c "$ranks_on" "$hosts_runner")
# shellcheck disable=SC2034
torchrun=(bash "$by_variables" -n 4 bash -c "export TORCHELASTIC_RUN_ID=none LOCAL_RANK=\$((RANK % 2)); $ranks_on" "$hosts_runner")
# shellcheck disable=SC2034
slurm=(bash "$by_variables" -n 4 bash -c "export SLURM_PROCID=\$RANK SLURM_STEP_NUM_TASKS=4 SLURM_LOCALID=\$((RANK % 2)) \
    SLURM_STEP_NODELIST=h[1-2] SLURM_JOB_ID=7 SLURM_STEP_ID=0; unset WORLD_SIZE MASTER_ADDR; $ranks_on" "$hosts_runner")
# shellcheck disable=SC2034
nodes=(bash "$by_variables" -n 2 bash -c 'exec "$0" "h$((RANK + 1))" "$1" --nnodes 2 --node-rank "$RANK" --master "h1:$MASTER_PORT" -n 2 "${@:2}"' "$hosts_runner")
# shellcheck disable=SC2034
indexed=(bash "$by_variables" -n 2 bash -c 'export JOB_COMPLETION_INDEX=$RANK; exec "$0" "h$((RANK + 1))" "$1" --nnodes 2 --master "h1:$MASTER_PORT" -n 2 "${@:2}"' "$hosts_runner")
# shellcheck disable=SC2034
pods=(bash "$by_variables" -n 2 bash -c 'export PET_NNODES=2 PET_NODE_RANK=$RANK PET_MASTER_ADDR=h1 PET_MASTER_PORT=$MASTER_PORT PET_NPROC_PER_NODE=2
    exec "$0" "h$((RANK + 1))" "$@"' "$hosts_runner")

digits_alone
fake=$build/tests/launcher/launcher_fake_softgpu
for way in variables torchrun slurm nodes indexed pods; do
    declare -n launch=$way
    digits_equal "$way" "${launch[@]}" "$ddprun" --interface eth0
    run "${launch[@]}" "$ddprun" --device softgpu --unannotated sh -c 'echo "$RANK is $LOCAL_RANK of $LOCAL_WORLD_SIZE on $(hostname)"'
    for line in '0 is 0 of 2 on h1' '1 is 1 of 2 on h1' '2 is 0 of 2 on h2' '3 is 1 of 2 on h2'; do
        check "$way: places: $line" grep -q "$line" "$work/stdout"
    done
    fails "$way: a rank is killed" 137 'rank 3 .host h2, process [0-9]*. was ended by SIGKILL' "${launch[@]}" "$ddprun" "$fake" stage 2 stage 3 @3 kill 9 @all hang
    clean "$way: a rank is killed"
done

# The address: of another rank's host; `localhost` where rank 0 is, as in a PyTorchJob; of no interface, but it leads to rank 0, as that of a Service does.
BY_ADDRESS=h2 digits_equal "rank 0 is on the other host" "${variables[@]}" "$ddprun" --interface eth0
digits_equal "localhost on rank 0's host" bash "$by_variables" -n 4 bash -c "[ \$RANK != 0 ] || export MASTER_ADDR=localhost; $ranks_on" "$hosts_runner" \
    "$ddprun" --interface eth0
hosts_net h1 route add local 10.88.0.5 dev lo
hosts_net h2 route add 10.88.0.5 via 10.77.0.1
BY_ADDRESS=10.88.0.5 digits_equal "an address of no interface" "${variables[@]}" "$ddprun" --interface eth0

# All hosts begin anew, and the ddprun of all ranks with them.
run "${nodes[@]}" "$ddprun" --max-restarts 2 --device softgpu --unannotated \
    sh -c 'echo "attempt ${DDPRUN_RESTART:-0} of $RANK"; [ "$RANK.$DDPRUN_RESTART" != 3. ] || exit 5; [ "$RANK.$DDPRUN_RESTART" != 0.1 ] || exit 6'
succeeded "a job begins anew twice"
check "... said once each time" [ "$(grep -c '^ddprun: restart [12] of 2: DDPRUN_RESTART=' "$work/stderr")" -eq 2 ]
check "... by all four ranks" [ "$(grep -c 'attempt 2 of ' "$work/stdout")" -eq 4 ]
clean "a job begins anew"
launch=("${variables[@]}")

# The other host has a secret of its own.
own=(bash -c '[ "$RANK" -lt 2 ] || { export HOME=$HOME/h2; mkdir -p "$HOME/.config/ddprun"; umask 077; echo "a secret of this host" >"$HOME/.config/ddprun/secret"; }; exec "$@"' own)
run "${launch[@]}" "${own[@]}" "$ddprun" --timeout 14 "$fake"
check "another secret on the other host: no job" [ "$code" -ne 0 ]
check "... each rank there names host and file" [ "$(grep -cE '^ddprun: the ddprun that listens at h1, port [0-9]*, does not take in rank [23] .host h2.: its secret is not that of .*/h2/.config/ddprun/secret' "$work/stderr")" -eq 2 ]
check "... rank 0 names who is missing" grep -q '^ddprun: waiting for 2 of 4: ranks 2, 3 (a ddprun at .* was refused: ' "$work/stderr"
clean "another secret on the other host"
finish
