# shellcheck shell=bash disable=SC2154 # hosts_work is of hosts.sh
# slurm.sh - a Slurm of the test's own on the hosts of hosts.sh: slurmctld on h1, slurmd on both. Sourced after it:
#
#   slurm_need                       # skips the test where Slurm is not installed
#   slurm_up                         # after hosts_up; then: hosts_on h1 srun -N2 -n4 ...
#   slurm_down                       # ends the daemons; what is left on a host after it is a leak
#
# Without munge: only who is inside the test's namespaces can reach the daemons. Ports are Slurm's usual ones, in the hosts' own
# networks. Each host claims eight processors and two GPUs, so that two ranks fit on any machine.

slurm_need() {
    local command
    [ "$(id -u)" -eq 0 ] || skip "slurmd wants to be root"
    for command in slurmctld slurmd srun sinfo; do
        command -v "$command" >/dev/null || skip "no $command (Debian: slurmctld slurmd slurm-client slurm-wlm-basic-plugins)"
    done
    # Root in a user namespace of the test has too few rights: slurmd sets groups.
    [ "$(awk '{ print $3; exit }' /proc/self/uid_map)" -gt 1 ] || skip "slurmd wants to be root, not only in a user namespace"
}

slurm_configuration() {
    local d=$hosts_work/slurm
    cat <<END
ClusterName=test
SlurmctldHost=h1(10.77.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation=$d/state
SlurmdSpoolDir=$d/spool-%n
TmpFS=$d/tmp-%n
SlurmctldPidFile=$d/slurmctld.pid
SlurmdPidFile=$d/slurmd-%n.pid
SlurmctldLogFile=$d/slurmctld.log
SlurmdLogFile=$d/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1
GresTypes=gpu
NodeName=h1 NodeAddr=10.77.0.1 CPUs=8 RealMemory=1000 Gres=gpu:2 State=UNKNOWN
NodeName=h2 NodeAddr=10.77.0.2 CPUs=8 RealMemory=1000 Gres=gpu:2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
}

slurm_up() {
    local d=$hosts_work/slurm end=$((SECONDS + $(patient 60)))
    mkdir -p "$d/state" "$d/spool-h1" "$d/spool-h2" "$d/tmp-h1" "$d/tmp-h2"
    slurm_configuration >"$d/slurm.conf"
    mknod "$d/gpu0" c 1 3 && mknod "$d/gpu1" c 1 5 || skip "device files cannot be made here" # what Slurm wants of a GPU
    echo "Name=gpu File=$d/gpu[0-1]" >"$d/gres.conf"
    export SLURM_CONF=$d/slurm.conf
    hosts_exec h1 slurmctld -D -c </dev/null >"$d/slurmctld.out" 2>&1 &
    slurm_daemons=($!)
    hosts_exec h1 slurmd -D -N h1 </dev/null >"$d/slurmd-h1.out" 2>&1 &
    slurm_daemons+=($!)
    hosts_exec h2 slurmd -D -N h2 </dev/null >"$d/slurmd-h2.out" 2>&1 &
    slurm_daemons+=($!)
    until [ "$(hosts_on h1 timeout 10 sinfo --noheader --format=%D --states=idle 2>/dev/null)" = 2 ]; do
        if [ "$SECONDS" -ge "$end" ]; then
            tail -n 5 "$d"/*.log "$d"/*.out
            printf 'not ok - Slurm starts\n'
            exit 1
        fi
        sleep 0.2 # between looks
    done
}

slurm_down() {
    kill "${slurm_daemons[@]}"
    wait "${slurm_daemons[@]}" 2>/dev/null # their exit codes say nothing
    return 0
}
