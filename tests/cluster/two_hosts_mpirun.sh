#!/usr/bin/env bash
# two_hosts_mpirun.sh BUILD - under mpirun, four ranks on two hosts train what one process trains, over TCP; and so they do by --hosts.
# A rank that is killed, or a host that loses its network, ends the job everywhere.
# shellcheck source=tests/cluster/cluster.sh
source "$(dirname "$0")/cluster.sh"
command -v mpirun >/dev/null || skip "no mpirun (Debian: openmpi-bin)"
note_quiet
export OMPI_MCA_plm_rsh_agent=$hosts_agent
four=("$hosts_runner" h1 mpirun --allow-run-as-root --host "h1:2,h2:2" -n 4 --bind-to none)
by_hosts=("$hosts_runner" h1 "$ddprun" --hosts "h1:2,h2:2")

digits_alone
digits_equal "digits" "${four[@]}" "$ddprun"
digits_equal "digits by --hosts" "${by_hosts[@]}"
check_in_two "mpirun" "${four[@]}" "$ddprun"
check_in_two "--hosts" "${by_hosts[@]}"

variables_reach "$hosts_runner" h1 "$ddprun" --hosts "h1:1,h2:1"
elsewhere "a folder that h2 has not" "${by_hosts[@]}"

run "${chargpt}_plain" "${chargpt_options[@]}" --save "$work/serial"
succeeded "chargpt alone"
equal "chargpt" "$work/serial" "${four[@]}" "$ddprun" -v --bucket-mb 0.1 "$chargpt" "${chargpt_options[@]}" --save "$work/rank-%d"
for host in h1 h2; do
    check "-v: how ranks on $host are bound is said once" [ "$(grep -c "binding of ranks on $host: " "$work/stderr")" -eq 1 ]
done

killed "a rank that is killed" 3 "${four[@]}"
cut_off "a host that loses its network" "${by_hosts[@]}" --heartbeat-timeout 4
finish
