# shellcheck shell=bash disable=SC2034,SC2154 # the scripts that source it use its variables, and set some of them
# launched.sh - what the tests of jobs under a launcher on this host share. Sourced with the build folder as $1, in place of
# end_to_end/lib.sh, which it brings along. The script then says what starts N ranks, before -n N:
#
#   launcher=(mpirun --oversubscribe)

# shellcheck source=tests/end_to_end/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../end_to_end/lib.sh"
watch_leftovers
kept_logs=$build/failed-logs/${0##*/} # these tests have failed once in hundred runs on a busy machine, without a trace
fake=$build/tests/launcher/launcher_fake_softgpu
root=()
[ "$(id -u)" -ne 0 ] || root=(--allow-run-as-root)
limit=60

# Names of launchers' own; what they are started in decides whether they work at all.
unset PMIX_NAMESPACE PMIX_RANK PRTE_LAUNCHED "${!OMPI_@}" "${!SLURM_@}"

free_port() { python3 "$(dirname "${BASH_SOURCE[0]}")/free_port.py"; }

job() { # RANKS ARGUMENTS...
    local ranks=$1
    shift
    run "${launcher[@]}" -n "$ranks" "$@"
}

# job_works NAME RANKS ARGUMENTS..., job_fails NAME CODE PATTERN RANKS ARGUMENTS...: such a job ends well, or so (failed_with).
job_works() {
    job "${@:2}"
    succeeded "$1"
}
job_fails() {
    job "${@:4}"
    failed_with "$1" "$2" "$3"
}

nothing_left() { # NAME
    check "$1: no process is left" within 20 none_left
    check "$1: no folder is left" [ -z "$(find "$TMPDIR" -name 'ddprun-*')" ]
}

# equals_serial NAME RANKS: that many ranks train digits for $steps steps, as $work/serial was, bitwise the same on all.
equals_serial() {
    local name=$1 ranks=$2 rank
    job "$ranks" "$ddprun" --check-every 1 --bucket-mb 0.02 "$digits" "${options[@]}" --save "$work/rank-%d"
    succeeded "$name: ends well"
    for ((rank = 1; rank < ranks; rank++)); do
        check "$name: 0 and $rank are bitwise the same" cmp "$work/rank-0" "$work/rank-$rank"
    done
    check "$name: serial up to summation order" "$compare" --quiet "$work/rank-0" "$work/serial" 1e-5
    check "$name: closing lines once" [ "$(grep -c "ddprun: $ranks ranks, $steps steps" "$work/stderr")" -eq 1 ]
    check "$name: compared after every step" grep -q "compared $steps times" "$work/stderr"
    nothing_left "$name"
}

# ends NAME CODE PATTERN ARGUMENTS...: three ranks of the fake trainer; one line of ddprun, which matches.
ends() {
    local name=$1 code_wanted=$2 pattern=$3
    in_turn 3 || return 0
    shift 3
    job 3 "$ddprun" "$fake" "$@"
    failed_with "$name" "$code_wanted" "$pattern"
    nothing_left "$name"
}

# ---- what happens to the launchers themselves ----

all_run() { [ "$(find "$pids" -type f ! -name '*.new' | wc -l)" -eq 3 ]; }
parent_of() { sed 's/.*) . //; s/ .*//' "/proc/$1/stat"; }

# hit NAME CODE PATTERN VICTIM SIGNAL OPTIONS...: three ranks that run; VICTIM (a rank's ddprun, or `launcher`) gets SIGNAL; exactly one line
# of ddprun matches PATTERN. CODE: "any" but 0, where the launcher's version decides; "mute": so, and the launcher
# passes on no more of ddprun's lines; "killed": no process is left to print one.
hit() {
    local name=$1 code_wanted=$2 pattern=$3 victim=$4 signal=$5 started
    in_turn 3 || return 0
    shift 5
    pids=$(mktemp -d "$work/pids-XXXXXX")
    timeout -k 2 "$(patient "$limit")" "${runtime[@]}" "${launcher[@]}" -n 3 "$ddprun" "$@" "$fake" stage 2 stage 3 sleep 300 pid "$pids" @all hang \
        </dev/null >"$work/stdout" 2>"$work/stderr" &
    started=$!
    check "$name: three ranks run" within 30 all_run
    if [ "$victim" = launcher ]; then
        kill "-$signal" "$(cat "/proc/$started/task/$started/children")"
    else
        kill "-$signal" "$(parent_of "$(cat "$pids/rank.$victim" 2>/dev/null || cat "$pids"/*"$victim")")"
    fi
    wait "$started" 2>/dev/null
    code=$?
    if [ "$code_wanted" = mute ]; then
        check "$name: an exit code other than 0" [ "$code" -ne 0 ]
    elif [ "$code_wanted" = any ]; then
        check "$name: an exit code other than 0" [ "$code" -ne 0 ]
        check "$name: one line of ddprun says it" [ "$(grep -c -E "^ddprun: .*($pattern)" "$work/stderr")" -eq 1 ]
    elif [ "$code_wanted" != killed ]; then
        failed_with "$name" "$code_wanted" "$pattern"
    fi
    # What a ddprun left that was killed last of all, the next one on the host removes.
    [ "$signal" != STOP ] || "${runtime[@]}" "$ddprun" -n 1 --device softgpu true
    nothing_left "$name"
}
