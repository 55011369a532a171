#!/usr/bin/env bash
# run.sh BUILD [--place node|mpirun|hosts] [--plan|--by-state|--turns] [--runs N] [--seed S] [--first N] [--only KIND] [--pause SECONDS] [--verbose] [--help]
# The fault campaign (campaign.c): 20 runs, or as many as are asked for, on this node; under mpirun; or under mpirun over two
# simulated hosts. The mpirun is that of PATH, of Open MPI 4 or 5. --plan: by `ddprun --plan`, whose plan is made first, by gradients;
# --by-state: by state; --turns: without a plan, by DDP_TURN_OPEN and DDP_TURN_END. With DDPRUN_SOAK=1 also a rank that spends 90 s in host code, as for a checkpoint. Exit code 1: something was not as promised; 2: not understood; 77: not possible here.
arguments=("$@")
place=node
planned=
by=turns
by_state=()
options=()
while [ $# -gt 0 ]; do
    if [ "$1" = --place ]; then
        place=${2:-}
        shift
    elif [ "$1" = --plan ]; then
        planned=1
    elif [ "$1" = --by-state ]; then
        planned=1
        by=state
        by_state=(--by state)
        options+=("$1")
    else
        options+=("$1")
    fi
    shift
done
set -- "${options[@]}"
if [ ! -d "${1:-}" ]; then # where programs were built: the first
    sed -n 's/^# run.sh BUILD/Usage: bash tests\/faults\/run.sh BUILD/p' "$0" >&2
    exit 2
fi
case $place in
node | mpirun)
    source "$(dirname "$0")/../end_to_end/lib.sh"
    ;;
hosts)
    source "$(dirname "$0")/../cluster/hosts.sh"
    hosts_enter "$0" "${arguments[@]}"
    hosts_up
    export TMPDIR=$hosts_work
    source "$(dirname "$0")/../end_to_end/lib.sh"
    ;;
*)
    printf 'run.sh: --place %s: node, mpirun or hosts\n' "$place" >&2
    exit 2
    ;;
esac
shift

where=()
if [ "$place" != node ]; then
    command -v mpirun >/dev/null || skip "there is no mpirun here (Debian: openmpi-bin)"
    unset PMIX_NAMESPACE PMIX_RANK "${!OMPI_@}" "${!SLURM_@}"
    root=
    [ "$(id -u)" -ne 0 ] || root=--allow-run-as-root
    where=(--prefix "mpirun $root --oversubscribe --bind-to none -n %d")
fi
if [ "$place" = hosts ]; then
    agent="--mca plm_rsh_agent $hosts_agent"
    source "$(dirname "$0")/../cluster/open_mpi_5.sh"
    if open_mpi_5_is mpirun; then
        agent="--prtemca plm_ssh_agent $hosts_agent"
        for host in h1 h2; do # it waits for a lost host as long as the system does, 15 minutes by default
            hosts_on "$host" sh -c 'echo 4 >/proc/sys/net/ipv4/tcp_retries2'
        done
    fi
    where=(--ranks 4 --prefix "$hosts_runner h1 mpirun $root $agent --host h1:2,h2:2 --bind-to none -n %d")
    for host in h1 h2; do
        keeper=$(cat "$hosts_work/$host/pid")
        where+=(--host "$keeper:/proc/$keeper/root$hosts_work/tmp")
    done
    where+=(--cut "nsenter --target $keeper --net ip link set eth0 down" --restore "nsenter --target $keeper --net ip link set eth0 up")
fi

if [ -n "$planned" ]; then
    truncate -s 4096 "$work/records"
    run "$ddprun" -q --device softgpu scout "${by_state[@]}" --prove --json "$work/plan.json" "$build/tests/faults/trainer" "$work/records" 40 "$by"
    check "the trainer's plan is proved" grep -q '^proof (d): passed' "$work/stdout"
    where+=(--plan "$work/plan.json")
fi

campaign() {
    "${runtime[@]}" "$build/tests/faults/campaign" "${where[@]}" "$@" "$build" "$work" </dev/null
}
if [ $# -eq 0 ]; then
    campaign --verbose || exit 1
    [ "$place" != node ] || [ "${DDPRUN_SOAK:-0}" = 0 ] || campaign --pause 90 --runs 1 --verbose || exit 1
else
    campaign "$@" || exit
fi
finish
