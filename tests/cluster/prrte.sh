#!/usr/bin/env bash
# prrte.sh BUILD - the essentials of mpirun.sh under PRRTE, whose PMIx is a release newer than ours: as prterun, and as mpirun of Open MPI 5.
# Four ranks train as one process does; whatever ends a job is explained once and by name, and nothing is left of it.
source "$(dirname "$0")/launched.sh"
source "$(dirname "$0")/open_mpi_5.sh"
open_mpi_5_take

steps=60
options=(--data "$data" --batch 96 --steps "$steps" --seed 5)
works "digits alone" "$digits_plain" "${options[@]}" --save "$work/serial"
for name in mpirun prterun; do
    signal=INT
    [ "$name" = mpirun ] || signal=TERM
    launcher=("$name" "${root[@]}" --map-by :oversubscribe)
    equals_serial "$name: digits" 4
    ends "$name: exit code" 3 'rank 1 .*exit code 3' stage 2 stage 3 @1 exit 3 @all hang
    ends "$name: kill -9" 137 'rank 2 .*SIGKILL' stage 2 stage 3 @2 kill 9 @all hang
    hit "$name: a supervisor is killed" any 'the ddprun of rank 2 .* is lost' 2 KILL
    hit "$name: SIG$signal" mute '' launcher "$signal"
done

# Once each, by prterun.
ends "leaves early" 1 'rank 0 .*left with exit code 0' stage 2 stage 3 @0 exit 0 @all step 1 hang
hit "supervisor 0 is killed" any 'rank 1 .* has lost the ddprun of rank 0' 0 KILL
hit "a supervisor is asked to end" 143 'SIGTERM: ending 3 ranks' 1 TERM
hit "prterun is killed" killed '' launcher KILL
job_works "what a rank has of the launcher: read" 2 "$ddprun" --device softgpu --subst sh -c 'env >"$TMPDIR/env-{rank}"; readlink /proc/$$/fd/*; true'
check "what a rank has of the launcher: no variable, no socket" \
    bash -c "! grep -E '^(PMIX|PMI|OMPI|PRTE)_' '$TMPDIR'/env-* && ! grep socket: '$work/stdout'"
job_fails "-n is prterun's" 2 'set the number of ranks there' 2 "$ddprun" -n 2 "$fake"

# Two jobs at once where the host's name is long: PRRTE puts it before the numbers that distinguish jobs.
if unshare --uts true 2>/dev/null; then
    mkdir "$work/both"
    run unshare --uts bash -c 'hostname "$0"; "${@//JOB/a}" & first=$!; "${@//JOB/b}" && wait "$first"' \
        a-host-of-the-seventh-row-in-the-second-hall.cluster.example.org \
        "${launcher[@]}" -n 2 "$ddprun" --device softgpu \
        sh -c 'touch "$0/JOB"; until [ -e "$0/a" ] && [ -e "$0/b" ]; do sleep 0.05; done' "$work/both"
    succeeded "two jobs on a host with a long name"
fi
finish
