#!/usr/bin/env bash
# two_hosts_prrte.sh BUILD - two_hosts_mpirun.sh under PRRTE, whose PMIx is a release newer than ours: mpirun of Open MPI 5, and prterun.
source "$(dirname "$0")/cluster.sh"
source "$(dirname "$0")/open_mpi_5.sh"
open_mpi_5_take
note_quiet
export PRTE_MCA_plm_ssh_agent=$hosts_agent
options=(--allow-run-as-root --host "h1:2,h2:2" -n 4 --bind-to none)
mpirun=("$hosts_runner" h1 mpirun "${options[@]}")
prterun=("$hosts_runner" h1 prterun "${options[@]}")

digits_alone
digits_equal "mpirun 5" "${mpirun[@]}" "$ddprun"
digits_equal "prterun" "${prterun[@]}" "$ddprun"

killed "mpirun 5, a rank that is killed" 3 "${mpirun[@]}"
killed "prterun, a rank that is killed" 2 "${prterun[@]}"
# It would be a success to PRRTE if it noticed first; it ends once the system gives up its connection, after 15 minutes by default.
for host in h1 h2; do
    hosts_on "$host" sh -c 'echo 5 >/proc/sys/net/ipv4/tcp_retries2'
done
cut_off "a host that loses its network" "${prterun[@]}" --prtemca oob_tcp_keepalive_time 0 "$ddprun" --heartbeat-timeout 3
check "a host that loses its network: ddprun reports it" grep -Eq '^ddprun: the ddprun of rank [23] \(.*host h2\) is lost' "$work/stderr"
finish
