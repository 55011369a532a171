#!/usr/bin/env bash
# patience.sh - limits of tests, which follow the machine's load. Sourced, it has patient() and within(); run as
#
#   patience.sh SECONDS COMMAND...
#
# it is timeout(1) with such a limit: exit code 124 if the command has not ended by then. Seconds are those of a machine that does
# nothing else. They are stretched by 2 and the number of processes that want a core, now or over the last minute, for each core; a
# limit that is too long costs time only where something hangs.
patience_cores=$(nproc)
tests_soak=${TESTS_SOAK:-${DDPRUN_SOAK:-0}} # 1: the long runs; DDPRUN_SOAK is the name in the project around this folder

# patient SECONDS [LEAST]: prints how many they are now, and LEAST if that is more.
patient() {
    local load wanted seconds
    read -r load _ _ wanted _ </proc/loadavg
    load=${load%.*} wanted=${wanted%/*}
    [ "$wanted" -ge "$load" ] || wanted=$load
    seconds=$(($1 * (2 * patience_cores + wanted) / patience_cores))
    echo $((seconds > ${2:-0} ? seconds : ${2:-0}))
}

# within SECONDS COMMAND...: waits until the command succeeds; false if it does not in time.
within() {
    local begin=$SECONDS seconds=$1
    shift
    until "$@"; do
        [ $((SECONDS - begin)) -le "$(patient "$seconds")" ] || return 1
        sleep 0.02 # between looks
    done
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    seconds=$1
    [ "$tests_soak" != 1 ] || export TESTS_SOAK=1
    [ "$tests_soak" != 1 ] || seconds=1800
    shift
    limit=$(patient "$seconds")
    exec timeout -k 5 "$limit" "$@"
fi
