#!/usr/bin/env bash
# two_hosts_mpirun.sh BUILD - under mpirun, four ranks on two hosts train what one process trains, over TCP.
# A rank that is killed, or a host that loses its network, ends the job everywhere.
source "$(dirname "$0")/cluster.sh"
command -v mpirun >/dev/null || skip "no mpirun (Debian: openmpi-bin)"
note_quiet
export OMPI_MCA_plm_rsh_agent=$hosts_agent
four=("$hosts_runner" h1 mpirun --allow-run-as-root --host "h1:2,h2:2" -n 4 --bind-to none)
probed=(--mca oob_tcp_keepalive_time 1 --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 1)

digits_alone
digits_equal "digits" "${four[@]}" "$ddprun"
check_in_two "mpirun" "${four[@]}" "$ddprun"

works "chargpt alone" "${chargpt}_plain" "${chargpt_options[@]}" --save "$work/serial"
equal "chargpt" "$work/serial" "${four[@]}" "$ddprun" -v --bucket-mb 0.1 "$chargpt" "${chargpt_options[@]}" --save "$work/rank-%d"
for host in h1 h2; do
    check "-v: how ranks on $host are bound is said once" [ "$(grep -c "binding of ranks on $host: " "$work/stderr")" -eq 1 ]
done

killed "a rank that is killed" 3 "${four[@]}"
cut_off "a host that loses its network" "${four[@]}" "${probed[@]}" "$ddprun" --heartbeat-timeout 4
finish
