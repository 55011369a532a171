#!/usr/bin/env bash
# interrupted.sh BUILD [--runs N] [--seed S] [--first I] - trainings that are interrupted at random moments keep their work: SIGTERM, SIGINT or
# SIGUSR1 at one of up to three hosts, or scancel of a Slurm step, while rank 0 needs 0 to 20 s to save, directly or in a script that
# traps the signal. Where ranks agree to stop (DDP_ANY, DDP_REDUCE) and the save is shorter than --grace, the checkpoint is whole; where not,
# each that is lost is named by a line with the recipe. A whole one has the weights of a run of that many steps.
#
# 12 trainings, or as many as are asked for; 100 with DDPRUN_SOAK=1. A failure names the command that repeats it.
source "$(dirname "$0")/cluster.sh"
source "$(dirname "$0")/slurm.sh"
export HOME=$work/home
mkdir -m 700 "$HOME"
export NCCL_SOCKET_IFNAME=eth0 # a switch is not the first interface of its host
stops=$build/tests/trainers/stops
saved=$work/checkpoint
runs=12 seed=1 first=0
[ "${DDPRUN_SOAK:-0}" = 0 ] || runs=100
shift
while [ $# -gt 1 ]; do
    case $1 in
    --runs) runs=$2 ;;
    --seed) seed=$2 ;;
    --first) first=$2 ;;
    esac
    shift 2
done

hosts_up_third
signals=(TERM INT USR1)
if (slurm_need) >/dev/null; then
    slurm_up
    run "$hosts_runner" h1 srun -N2 -n2 true # the daemons have started all that they keep
    signals+=(scancel scancel-USR1)
fi
note_quiet

# As a user's script that asks for another job: it notes the signal, and ends with 42 when its trainer has.
cat >"$work/requeue.sh" <<'END'
got=0
trap 'got=1' USR1
"$@" &
trainer=$!
while kill -0 "$trainer" 2>/dev/null; do wait "$trainer"; done
[ "$got" = 0 ] || exit 42
END

# ---- what a run is ----

one_of() { # WORDS...: sets drawn
    shift $((RANDOM % $#))
    drawn=$1
}

# draw RUN: sets what the run is.
draw() {
    RANDOM=$((seed * 1009 + $1))
    one_of "${signals[@]}" && signal=$drawn
    one_of any any reduce alone alone && agree=$drawn
    one_of 0 0 1 2 3 8 12 20 && seconds=$drawn
    one_of 30 30 30 5 && grace=$drawn
    one_of 1 2 3 && hosts=$drawn
    one_of 1 2 && per_host=$drawn
    one_of yes no no && in_script=$drawn
    one_of one all && reached=$drawn
    step=$((5 + RANDOM % 40)) wait_ms=$((RANDOM % 100))
    [[ $signal != scancel* ]] || [ "$hosts" -lt 3 ] || hosts=2 # as many as Slurm has
    [ "$hosts" -gt 1 ] || per_host=$((per_host * 2))
    at=h$((1 + RANDOM % hosts))
    ranks=$((hosts * per_host))
    name="run $1: $signal at $([ "$reached" = all ] && echo "all of $hosts hosts" || echo "$at of $hosts"), $ranks ranks, agree $agree, a save of $seconds s, --grace $grace"
    [ "$in_script" = no ] || name+=", in a script"
}

training() { # sets command: what each host or task runs
    command=("$stops" --steps 100000 --pace-us 3000 --agree "$agree" --save "$saved" --save-seconds "$seconds")
    [ "$in_script" = no ] || command=(bash "$work/requeue.sh" "${command[@]}")
    command=("$ddprun" --device softgpu --grace "$grace" "${command[@]}")
}

# ---- a run ----

begin_host() { # HOST OPTIONS...
    local host=$1
    shift
    (hosts_exec "$host" env --default-signal=INT,QUIT "${command[0]}" "$@" "${command[@]:1}" </dev/null >"$work/out-$host" 2>&1) &
    started+=($!)
}

begin_run() {
    local node
    started=()
    training
    if [[ $signal = scancel* ]]; then
        (hosts_exec h1 srun --mpi=none --job-name "run$1" -N "$hosts" -n "$ranks" --ntasks-per-node="$per_host" "${command[0]}" --interface eth0 "${command[@]:1}" \
            </dev/null >"$work/out-h1" 2>&1) &
        started+=($!)
    elif [ "$hosts" -eq 1 ]; then
        begin_host h1 -n "$ranks"
    else
        for ((node = 0; node < hosts; ++node)); do
            begin_host "h$((node + 1))" --nnodes "$hosts" --node-rank "$node" --master h1:29500 --interface eth0 -n "$per_host"
        done
    fi
}

interrupt() {
    local node=$((${at#h} - 1))
    case $signal in
    scancel) hosts_on h1 scancel --name "run$1" ;;
    scancel-USR1) hosts_on h1 scancel --signal USR1 --name "run$1" ;;
    USR1) if [ "$reached" = all ]; then kill -USR1 "${started[@]}"; else kill -USR1 "${started[node]}"; fi ;;
    *) kill "-$signal" "${started[node]}" ;;
    esac
}

have_ended() {
    local pid
    for pid in "${started[@]}"; do
        [ ! -e "/proc/$pid" ] || grep -q '^State:.[ZX]' "/proc/$pid/status" 2>/dev/null || return 1
    done
}

trains() { grep -qs "^step $step\$" "$work/out-h1"; }
trains_or_ended() { trains || have_ended; }

end_run() { # sets codes: the exit code of each host
    local pid
    codes=
    for pid in "${started[@]}"; do
        wait "$pid"
        codes+="$? "
    done
}

# ---- what became of it ----

says() { grep -hqE -e "$1" "$work"/out-*; }

# What a run of as many steps saves.
is_right() {
    local steps
    steps=$(od -An -tu4 -j4 -N4 "$saved")
    rm -f "$work/right"
    timeout "$(patient 60)" env -u NCCL_SOCKET_IFNAME "$ddprun" -q -n "$ranks" --device softgpu "$stops" --steps $((steps)) --save "$work/right" </dev/null >"$work/right.out" 2>&1 &&
        cmp -s "$saved" "$work/right"
}

# Exit codes of a job whose ranks have stopped together.
are_documented() {
    local code wanted=0
    case $signal in
    TERM) wanted=143 ;;
    INT) wanted=130 ;;
    USR1) [ "$in_script" = no ] || wanted=42 ;;
    *) return 0 ;; # what srun makes of them is Slurm's
    esac
    for code in $codes; do [ "$code" -eq "$wanted" ] || return 1; done
}

whole=0 lost=0 together=0 apart_whole=0 apart_lost=0 late=0
judge() {
    local must=no
    [ "$agree" = alone ] || [ "$seconds" -ge "$grace" ] || must=yes
    [ "$must" = no ] || together=$((together + 1))
    if [ -e "$saved" ]; then
        whole=$((whole + 1))
        [ "$agree" != alone ] || apart_whole=$((apart_whole + 1))
        is_right || why+="the checkpoint is not that of its step; "
        [ "$must" = no ] || are_documented || why+="exit codes $codes; "
        [ "$must" = no ] || ! says '^ddprun: .*(was killed|different)' || why+="a rank was killed; "
        return
    fi
    lost=$((lost + 1))
    [ "$must" = no ] || why+="the checkpoint is lost; "
    if [ "$agree" = alone ] && says '^ddprun: .*DDP_ANY\(&flag\)'; then
        apart_lost=$((apart_lost + 1))
    elif [ "$seconds" -ge "$grace" ] && says "^ddprun: rank 0 .* was killed $grace s after SIG[A-Z0-9]*,.*--grace N"; then
        late=$((late + 1))
    else
        why+="it is not said that it is lost; "
    fi
}

make_run() { # NUMBER
    local why=
    draw "$1"
    rm -f "$saved" "$saved.next" "$work"/out-*
    begin_run "$1"
    within 60 trains_or_ended
    trains || why+="it does not train; "
    sleep "0.0$wait_ms"
    interrupt "$1"
    if ! within 90 have_ended; then
        why+="it does not end; "
        kill -KILL "${started[@]}"
    fi
    end_run
    judge
    within 30 nothing_left >/dev/null || why+="left: $(leftovers | tr '\n' ';')"
    cat "$work"/out-* >"$work/stderr" 2>/dev/null
    report "$name, exit codes $codes$([ -e "$saved" ] && echo whole || echo lost)" "$why"
    [ -z "$why" ] || printf '    again: bash tests/cluster/interrupted.sh %s --seed %s --first %s --runs 1\n' "$build" "$seed" "$1"
}

for ((run = first; run < first + runs; ++run)); do make_run "$run"; done
[ ${#signals[@]} -eq 3 ] || slurm_down
printf '%d interrupted trainings: %d checkpoints whole, %d lost. Where ranks agree and have the time: %d. Where each stops alone: %d whole, %d lost and named. Too late: %d named.\n' \
    "$runs" "$whole" "$lost" "$together" "$apart_whole" "$apart_lost" "$late"
finish
