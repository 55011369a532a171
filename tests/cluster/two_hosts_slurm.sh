#!/usr/bin/env bash
# two_hosts_slurm.sh BUILD - under Slurm's srun, four ranks on two hosts train what one process trains, over TCP. Without PMIx it is said what to
# add. A trainer that leaves by _exit(0) when it is done is a success; a rank that is killed ends the job everywhere.
# shellcheck source=tests/cluster/cluster.sh
source "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/cluster/slurm.sh
source "$(dirname "$0")/slurm.sh"
slurm_need
slurm_up
four=("$hosts_runner" h1 srun --mpi=pmix -N2 -n4 --ntasks-per-node=2)
run "${four[@]}" true # the daemons have started all that they keep
succeeded "Slurm runs a job"
note_quiet

run "$digits_plain" "${digits_options[@]}" --save "$work/serial"
succeeded "digits alone"
equal "digits" "$work/serial" "${four[@]}" "$ddprun" "${compared_always[@]}" "$digits" "${digits_options[@]}" --save "$work/rank-%d"
compared_once "digits"

for mpi in none pmi2; do
    run "$hosts_runner" h1 srun --mpi=$mpi -N2 -n4 --ntasks-per-node=2 "$ddprun" "$digits" "${digits_options[@]}"
    check "--mpi=$mpi: fails" [ "$code" -ne 0 ]
    check "--mpi=$mpi: says what to add" grep -q '^ddprun: .*srun --mpi=pmix' "$work/stderr"
    clean "--mpi=$mpi"
done

run "${four[@]}" "$ddprun" "$ladder" --steps 12 --fault quick-exit --fault-step 11
succeeded "_exit(0) when all is done"
killed "a rank that is killed" 3 "${four[@]}"
slurm_down
finish
