#!/usr/bin/env bash
# two_hosts_address.sh BUILD - two hosts, on which RANK, WORLD_SIZE and MASTER_ADDR say which processes are one job, without PMIx:
# four ranks train as one process does, and as `ddprun -n 4`, bit by bit; the numbers of ranks on a host are found out; a rank that is
# killed is named, with its host; and nothing is left.
# shellcheck source=tests/cluster/cluster.sh
source "$(dirname "$0")/cluster.sh"
export HOME=$work/home BY_ADDRESS=h1
mkdir -m 700 "$HOME"
unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT "${!PET_@}"
note_quiet

# Ranks 0 and 1 on h1, 2 and 3 on h2.
# shellcheck disable=SC2016 # the processes' shells expand it
launch=(bash "$(dirname "$0")/by_variables.sh" -n 4 bash -c 'host=h1; [ "$RANK" -lt 2 ] || host=h2; exec "$0" "$host" "$@"' "$hosts_runner")

digits_alone
digits_equal "two hosts by address" "${launch[@]}" "$ddprun" --interface eth0
run "$ddprun" -n 4 -q --check-every 1 --bucket-mb 0.02 "$digits" "${digits_options[@]}" --save "$work/alone-%d"
succeeded "ddprun -n 4"
check "the bits of ddprun -n 4" cmp "$work/rank-3" "$work/alone-0"

# shellcheck disable=SC2016 # the ranks' shells expand it
run "${launch[@]}" "$ddprun" --device softgpu --unannotated sh -c 'echo "$RANK is $LOCAL_RANK of $LOCAL_WORLD_SIZE on $(hostname)"'
for line in '0 is 0 of 2 on h1' '1 is 1 of 2 on h1' '2 is 0 of 2 on h2' '3 is 1 of 2 on h2'; do
    check "places: $line" grep -q "$line" "$work/stdout"
done

fake=$build/tests/launcher/launcher_fake_softgpu
run "${launch[@]}" "$ddprun" "$fake" stage 2 stage 3 @3 kill 9 @all hang
failed_with "a rank is killed" 137 'rank 3 .host h2, process [0-9]*. was ended by SIGKILL'
clean "a rank is killed"

# The other host has a secret of its own.
# shellcheck disable=SC2016
own=(bash -c '[ "$RANK" -lt 2 ] || { export HOME=$HOME/h2; mkdir -p "$HOME/.config/ddprun"; umask 077; echo "a secret of this host" >"$HOME/.config/ddprun/secret"; }; exec "$@"' own)
run "${launch[@]}" "${own[@]}" "$ddprun" --timeout 14 "$fake"
check "another secret on the other host: no job" [ "$code" -ne 0 ]
check "... each rank there names host and file" [ "$(grep -cE '^ddprun: the ddprun of rank 0, at h1, port [0-9]*, does not take in rank [23] .host h2.: its secret is not that of .*/h2/.config/ddprun/secret' "$work/stderr")" -eq 2 ]
check "... rank 0 names who is missing" grep -q '^ddprun: waiting for 2 of 4: ranks 2, 3$' "$work/stderr"
clean "another secret on the other host"
finish
