#!/usr/bin/env bash
# two_hosts_slurm.sh BUILD - under Slurm's srun, four ranks on two hosts train what one process trains, over TCP, with PMIx and without. A trainer that leaves by _exit(0) when it is done is a success; a rank that is killed ends the job everywhere.
source "$(dirname "$0")/cluster.sh"
source "$(dirname "$0")/slurm.sh"
slurm_need
slurm_up
four=("$hosts_runner" h1 srun --mpi=pmix -N2 -n4 --ntasks-per-node=2)
run "${four[@]}" true # the daemons have started all that they keep
succeeded "Slurm runs a job"
note_quiet

digits_alone
digits_equal "digits" "${four[@]}" "$ddprun"

check_in_two "srun" "${four[@]}" "$ddprun"

if [ "$hosts_ipv6" = yes ]; then
    digits_equal "digits over IPv6" env NCCL_SOCKET_FAMILY=AF_INET6 "${four[@]}" "$ddprun" --interface fd00:77::/64
fi

# Slurm gives each task its GPU, or each host's tasks all of its GPUs: each rank takes one of its own.
for gpus in --gpus-per-task=1 --gpus-per-node=2; do
    works "$gpus" env SOFTGPU_DEVICES=2 "${four[@]}" $gpus "$ddprun" -v "$ladder" --steps 4
    for rank in 0 1 2 3; do
        check "$gpus: rank $rank has GPU $((rank % 2))" grep -Eq "rank $rank .*CUDA_VISIBLE_DEVICES: $((rank % 2))(,|$)" "$work/stderr"
    done
done

# A batch script, as users write it.
cat >"$work/job.sh" <<END
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=2 --gpus-per-task=1 --output=$work/job.out
srun --mpi=pmix "$ddprun" "$ladder" --steps 4
END
SOFTGPU_DEVICES=2 works "a batch script" "$hosts_runner" h1 sbatch --wait "$work/job.sh"
cp "$work/job.out" "$work/stderr"
check "a batch script: trains" grep -q '^ddprun: 4 ranks, 4 steps' "$work/stderr"
clean "a batch script"

# Without PMIx the ranks meet on the first host of the step, whichever rank is there.
export HOME=$work/home
mkdir -m 700 "$HOME"
for options in --mpi=none --mpi=pmi2 "--mpi=none --distribution=cyclic"; do
    digits_equal "$options" "$hosts_runner" h1 srun $options -N2 -n4 --ntasks-per-node=2 "$ddprun" --interface eth0
done
run "$hosts_runner" h1 srun --mpi=none -N2 -n4 --ntasks-per-node=2 "$ddprun" -n 4 "$ladder"
check "-n beside srun's: refused" grep -q '^ddprun: -n 4 was given to ddprun, which was started 4 times by another launcher (SLURM_STEP_NUM_TASKS=4)' "$work/stderr"
clean "-n beside srun's"

# scancel: SIGTERM for all processes of a step, which gives ranks the time of --grace. Of four ranks one saves, on each host in turn.
fake=$build/tests/launcher/launcher_fake_softgpu
is_gone() { [ ! -e "/proc/$1" ] || grep -q '^State:.[ZX]' "/proc/$1/status"; }
others_left() {
    local rank
    for rank in 0 1 2 3; do
        [ "$rank" = "$1" ] || is_gone "$(cat "$pids/rank$rank")" || return 1
    done
}
for saves in 0 3; do
    pids=$(mktemp -d "$work/pids-XXXXXX")
    words=()
    for rank in 0 1 2 3; do words+=("@$rank" pid "$pids" catch 15 "$pids/c$rank"); done
    words+=("@$saves" await "$pids/go" say saved @all stage 4 exit 0)
    ("${four[@]}" --job-name "saves$saves" "$ddprun" "$fake" stage 2 stage 3 step 82 "${words[@]}" </dev/null \
        >"$work/stdout" 2>"$work/stderr") &
    job=$!
    check "scancel, rank $saves saves: four ranks run" within 60 eval '[ "$(find "$pids" -type f ! -name "*.new" | wc -l)" -eq 8 ]'
    "$hosts_runner" h1 scancel --name "saves$saves"
    check "scancel, rank $saves saves: the others leave" within 30 others_left "$saves"
    check "scancel, rank $saves saves: it lives" eval '! is_gone "$(cat "$pids/rank$saves")"'
    touch "$pids/go"
    wait "$job"
    check "scancel, rank $saves saves: it has saved" grep -q saved "$work/stdout"
    check "scancel, rank $saves saves: no rank was killed" eval '! grep -E "was killed|different" "$work/stderr"'
    clean "scancel, rank $saves saves"
done

works "_exit(0) when all is done" "${four[@]}" "$ddprun" "$ladder" --steps 12 --fault quick-exit --fault-step 11
killed "a rank that is killed" 3 "${four[@]}"
slurm_down
finish
