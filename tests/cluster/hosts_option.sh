#!/usr/bin/env bash
# hosts_option.sh BUILD - `ddprun --hosts` becomes the launcher that is installed, with a command that a shell takes back word by word, or
# says in one line why not. The launchers are scripts that print what they are given.
# shellcheck source=tests/end_to_end/lib.sh
source "$(dirname "$0")/../end_to_end/lib.sh"
runtime=() # no trainer runs here
unset PMIX_NAMESPACE SLURM_JOB_ID OMPI_COMM_WORLD_SIZE SLURM_STEP_NUM_TASKS PMI_RANK

# stub FOLDER NAME VERSION: a launcher that is known by its version, shows its arguments and folder, and ends with 5.
stub() {
    mkdir -p "$work/$1"
    cat >"$work/$1/$2" <<END
#!/bin/bash
if [ "\$1" = --version ]; then echo "$3"; exit 0; fi
printf '%s|' "\$@"
printf '\n%s %s\n' "\$PWD" "\${DDPRUN_RANKS-unset}"
exit 5
END
    chmod +x "$work/$1/$2"
}
stub openmpi4 mpirun 'mpirun (Open MPI) 4.1.4'
stub openmpi5 mpirun 'mpirun (Open MPI) 5.0.7'
stub mpich mpirun 'HYDRA build details:'
stub prrte prterun 'prterun (PRRTE) 3.0.2'
mkdir "$work/empty" "$work/a folder"
cd "$work/a folder" || exit 1
printf '# ours\nh1 slots=2\nh2:2\n' >hosts

# hosts PATHS WORD...: ddprun with the launchers of these folders and no other.
hosts() {
    local path=$1 folder folders=()
    shift
    for folder in $path; do
        folders+=("$work/$folder")
    done
    path=$(IFS=: && echo "${folders[*]}")
    run env -i "PATH=$path" NCCL_DEBUG=WARN DDPRUN_RANKS=3 UNRELATED=1 "$ddprun" "$@"
}

root=
[ "$(id -u)" -ne 0 ] || root='--allow-run-as-root|'
begin="${root}--host|h1:2,h2:2|-n|3|--map-by|slot|--bind-to|none|--wdir|/|-x|_DDPRUN_HOSTS_FOLDER=$work/a folder|"
variables="-x|PATH|-x|NCCL_DEBUG|"
# probes LAUNCHER: the parameters with which a lost host is noticed; not by PRRTE, which would end well.
probes() {
    if [ "$1" = openmpi4 ]; then
        echo "--mca|oob_tcp_keepalive_time|10|--mca|oob_tcp_keepalive_intvl|1|--mca|oob_tcp_keepalive_probes|3|"
    else
        echo "--prtemca|oob_tcp_keepalive_time|0|"
    fi
}
end="$variables$(realpath "$ddprun")|--env=A=x 'y'|--|./train|a b||"

for launcher in openmpi4 openmpi5 prrte; do
    wanted=$begin$(probes "$launcher")$end
    for list in h1:2,h2:2 file=hosts; do
        hosts "$launcher" --hosts "$list" --env "A=x 'y'" ./train 'a b' ''
        check "$launcher, $list: its exit code" [ "$code" -eq 5 ]
        check "$launcher, $list: its words" [ "$(sed -n 1p "$work/stdout")" = "$wanted" ]
        check "$launcher, $list: its folder, and no number of ranks" [ "$(sed -n 2p "$work/stdout")" = "$work/a folder unset" ]
    done
    hosts "$launcher" --hosts file=hosts --dry-run --env "A=x 'y'" ./train 'a b' ''
    succeeded "$launcher: --dry-run"
    check "$launcher: --dry-run can be pasted" [ "$(bash -c "$(cat "$work/stdout")" | sed -n 1p)" = "$wanted" ]
done
hosts "openmpi4" --hosts h1:2 -n 1 ./train
check "only root gets a message about --allow-run-as-root" [ "$(grep -c -- '--allow-run-as-root' "$work/stderr")" -eq "$((${#root} > 0))" ]
hosts "mpich prrte" --hosts file=hosts --dry-run ./train
check "another mpirun does not hide prterun" grep -q "^$work/prrte/prterun " "$work/stdout"
hosts "openmpi4 openmpi5" --hosts file=hosts --dry-run ./train
check "the first mpirun of PATH" grep -q "^$work/openmpi4/mpirun " "$work/stdout"

# refused NAME PATTERN WORD...: one line, exit code 2, nothing printed.
refused() {
    local name=$1 pattern=$2
    shift 2
    hosts "$@"
    failed_with "$name" 2 "$pattern"
    check "$name: starts nothing" [ ! -s "$work/stdout" ]
}
refused "no launcher" "--hosts needs mpirun of Open MPI 4 or newer, or prterun, and finds neither in PATH; install one .*openmpi-bin" \
    empty --hosts h1:2,h2:2 ./train
refused "only another mpirun" "neither in PATH \($work/mpich/mpirun is another: 'HYDRA build details:'\)" mpich --hosts h1:2,h2:2 ./train
refused "no number" "host h1 has no number of ranks" openmpi4 --hosts h1,h2 ./train
refused "a host twice" "host h1 is named twice" openmpi4 --hosts h1:2,h1:2 ./train
refused "more ranks than there are" "-n 5 is more than the 4 ranks of --hosts" openmpi4 --hosts h1:2,h2:2 -n 5 ./train
refused "no such file" "cannot read nowhere, in --hosts: No such file" openmpi4 --hosts file=nowhere ./train
mkfifo "$work/fifo"
for place in "$work/fifo" /dev/zero; do
    refused "hosts from $place" "cannot read $place, in --hosts: it is not a regular file" openmpi4 --hosts "file=$place" ./train
done
exec {silent}<>"$work/fifo"
refused "a pipe without a writer" "cannot read /dev/fd/$silent, in --hosts: it gave no data for 2 s" openmpi4 --hosts "file=/dev/fd/$silent" ./train
hosts openmpi4 --hosts file=<(cat hosts) ./train
check "a pipe of the shell" [ "$code" -eq 5 ]
refused "no program" "no program given" openmpi4 --hosts h1:2

# Where hosts were chosen before.
run env SLURM_JOB_ID=77 "$ddprun" --hosts h1:2,h2:2 --verify ./train 'a b'
failed_with "inside Slurm's job" 2 "Slurm's job 77.* srun --mpi=pmix -n 4 .*ddprun --verify ./train 'a b'$"
run env PMIX_NAMESPACE=x "$ddprun" --hosts h1:2 ./train
failed_with "inside a rank" 2 "this process is already a rank of a job .PMIX_NAMESPACE=x."
run "$ddprun" -n 300 ./train
failed_with "many ranks without hosts" 2 "'300' is not a number of ranks from 1 to 256"
finish
