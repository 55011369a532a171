#!/usr/bin/env bash
# mpirun.sh BUILD - a real mpirun on this host: ranks train as one process does, whatever ends a job is explained once and by name, by
# one line of ours, and nothing is left of it: processes, folders.
# shellcheck source=tests/end_to_end/lib.sh
source "$(dirname "$0")/../end_to_end/lib.sh"
command -v mpirun >/dev/null || {
    echo "skipped: there is no mpirun here (Debian: openmpi-bin)"
    exit 77
}
export TMPDIR=$work/tmp
mkdir "$TMPDIR"
fake=$build/tests/launcher/launcher_fake_softgpu
root=()
[ "$(id -u)" -ne 0 ] || root=(--allow-run-as-root)
export DDPRUN_TEST_MARK=$work # in the environment of everything that is started
limit=60

# Names of mpirun's own; what it is started in decides whether it works at all.
unset PMIX_NAMESPACE PMIX_RANK "${!OMPI_@}" "${!SLURM_@}"

job() { # RANKS ARGUMENTS...
    local ranks=$1
    shift
    run mpirun "${root[@]}" --oversubscribe -n "$ranks" "$@"
}

marked() { # processes of this test, but the one that looks
    env -u DDPRUN_TEST_MARK grep -lszx "DDPRUN_TEST_MARK=$work" /proc/[0-9]*/environ
}

nothing_left() { # NAME
    local deadline=$((SECONDS + 20))
    while [ -n "$(marked)" ] && [ $SECONDS -lt $deadline ]; do sleep 0.1; done
    check "$1: no process is left" [ -z "$(marked)" ]
    check "$1: no folder is left" [ -z "$(find "$TMPDIR" -name 'ddprun-*')" ]
}

steps=$((sanitized ? 12 : 60))
options=(--data "$data" --batch 96 --steps "$steps" --seed 5)
run "$digits_plain" "${options[@]}" --save "$work/serial"
succeeded "digits alone"
for ranks in 2 4; do
    job "$ranks" "$ddprun" --check-every 1 --bucket-mb 0.02 "$digits" "${options[@]}" --save "$work/rank-%d"
    succeeded "digits, $ranks ranks: ends well"
    for ((rank = 1; rank < ranks; rank++)); do
        check "digits, $ranks ranks: 0 and $rank are bitwise the same" cmp "$work/rank-0" "$work/rank-$rank"
    done
    check "digits, $ranks ranks: serial up to summation order" "$compare" --quiet "$work/rank-0" "$work/serial" 1e-5
    check "digits, $ranks ranks: closing lines once" [ "$(grep -c "ddprun: $ranks ranks, $steps steps" "$work/stderr")" -eq 1 ]
    check "digits, $ranks ranks: compared after every step" grep -q "compared $steps times" "$work/stderr"
    nothing_left "digits, $ranks ranks"
done

for rank in 0 1; do
    job 3 "$ddprun" --device softgpu "$build/tests/trainers/ladder" --steps 12 --fault leave --fault-rank "$rank"
    succeeded "rank $rank leaves by _exit when it is done, another has more to do"
    nothing_left "rank $rank leaves by _exit when it is done"
done

# What the supervisor has open is its own; what the trainer starts would keep it open for longer than either lives.
# shellcheck disable=SC2016 # the ranks' shells expand it
job 2 "$ddprun" --device softgpu sh -c 'readlink /proc/$$/fd/*; true'
succeeded "descriptors of a rank: read"
check "descriptors of a rank: no socket" [ "$(grep -c 'socket:' "$work/stdout")" -eq 0 ]

# What one supervisor alone writes, and what all of them do.
job 2 "$ddprun" --verify --trace "$work/trace" --summary-json "$work/summary" --output "files=$work/output" --interface lo "$digits" "${options[@]}"
succeeded "options: ends well"
check "--verify compares after every step" grep -q "compared $steps times" "$work/stderr"
check "--summary-json: two ranks" grep -q '"ranks": 2' "$work/summary"
check "--trace: a file for each rank" [ -s "$work/trace/rank-0.jsonl" -a -s "$work/trace/rank-1.jsonl" ]
check "--output files: rank 0's, and rank 1's with nothing in it" [ -s "$work/output/rank-0.out" -a -e "$work/output/rank-1.out" ]
job 2 env SOFTGPU_DEVICES=1 "$ddprun" "$digits" "${options[@]}"
failed_with "two ranks, one device" 2 '2 ranks want a GPU each, but there is 1'
job 2 env SOFTGPU_DEVICES=1 "$ddprun" --share-gpu "$digits" "${options[@]}"
succeeded "two ranks share a device"
# shellcheck disable=SC2016 # the ranks' shells expand it
job 2 "$ddprun" --device softgpu --subst sh -c '"$0" "$@" && "$0" "$@" && env >"$TMPDIR/env-{rank}"' "$digits" "${options[@]}"
succeeded "a script that trains twice"
check "the trainer is no process of mpirun's" bash -c "! grep -E '^(PMIX|PMI|OMPI|PRTE)_' '$TMPDIR'/env-*"
check "the trainer knows its place" grep -q '^LOCAL_RANK=1$' "$TMPDIR/env-1"
rm -f "$TMPDIR"/env-*
job 2 "$ddprun" --interface no-such-interface "$digits" "${options[@]}"
failed_with "--interface that is none" 2 "rank 0 .*no interface .*no-such-interface"

# ends NAME CODE PATTERN ARGUMENTS...: three ranks of the fake trainer; one line of ours, which matches.
ends() {
    local name=$1 code_wanted=$2 pattern=$3
    shift 3
    job 3 "$ddprun" "$fake" "$@"
    failed_with "$name" "$code_wanted" "$pattern"
    nothing_left "$name"
}
ends "exit code" 3 'rank 1 .*exit code 3' stage 2 stage 3 @1 exit 3 @all hang
ends "signal" 139 'rank 2 .*SIGSEGV' stage 2 stage 3 @2 kill 11 @all hang
ends "leaves early" 1 'rank 0 .*left with exit code 0' stage 2 stage 3 @0 exit 0 @all step 1 hang
ends "says why" 1 'rank 1 .*something bad' stage 2 @1 fail 'something bad' @all hang
job 3 "$ddprun" "$fake" stage 2 stage 3 step 7 stage 4 exit 0
succeeded "exit code 0 when it is done"

# A rank that hangs is named by supervisor 0; the report on it is made where it lives, and printed once.
if [ "$sanitized" -eq 0 ]; then
    job 3 "$ddprun" --bucket-mb 0.02 --hang-warning 0 --hang-timeout 3 "$build/tests/trainers/hangs" --how host
    failed_with "a rank that hangs" 1 "rank 1 \(host [^ ,]+, process [0-9]+, .*\) after step 7 has made no CUDA call for .*, and the job ends: it computes or waits on the host"
    check "a rank that hangs: its report, from where it lives" \
        [ "$(grep -cE '^  rank 1 \(host .*\) after step 7:|^    what it did last|^    its threads:' "$work/stderr")" -eq 3 ]
    check "a rank that hangs: what the others wait for" \
        [ "$(grep -cE '^  rank [02] \(.*, after 8 steps, waits for bucket [0-9] of step 8' "$work/stderr")" -eq 2 ]
    nothing_left "a rank that hangs"
fi

# ---- what happens to the launchers themselves ----
within() { # SECONDS COMMAND...
    local deadline=$((SECONDS + $1 + 1))
    shift
    until "$@"; do
        [ $SECONDS -lt $deadline ] || return 1
        sleep 0.05
    done
}
all_run() { [ "$(find "$pids" -type f ! -name '*.new' | wc -l)" -eq 3 ]; }
parent_of() { sed 's/.*) . //; s/ .*//' "/proc/$1/stat"; }

# hit NAME CODE PATTERN VICTIM SIGNAL OPTIONS...: three ranks that run; VICTIM (a rank's ddprun, or mpirun) gets SIGNAL; exactly one line
# of ours for each word in PATTERN... CODE: "any" but 0, where mpirun's version decides.
hit() {
    local name=$1 code_wanted=$2 pattern=$3 victim=$4 signal=$5 launcher
    shift 5
    pids=$(mktemp -d "$work/pids-XXXXXX")
    timeout -k 2 "$limit" "${runtime[@]}" mpirun "${root[@]}" --oversubscribe -n 3 "$ddprun" "$@" "$fake" stage 2 stage 3 sleep 300 pid "$pids" @all hang \
        </dev/null >"$work/stdout" 2>"$work/stderr" &
    launcher=$!
    check "$name: three ranks run" within 30 all_run
    if [ "$victim" = mpirun ]; then
        kill "-$signal" "$(cat "/proc/$launcher/task/$launcher/children")"
    else
        kill "-$signal" "$(parent_of "$(cat "$pids/rank.$victim" 2>/dev/null || cat "$pids"/*"$victim")")"
    fi
    wait "$launcher" 2>/dev/null
    code=$?
    if [ "$code_wanted" = any ]; then
        check "$name: an exit code that is none of success" [ "$code" -ne 0 ]
        check "$name: one line of ours says it" [ "$(grep -c -E "^ddprun: .*($pattern)" "$work/stderr")" -eq 1 ]
    elif [ "$code_wanted" != killed ]; then
        failed_with "$name" "$code_wanted" "$pattern"
    fi
    # What a ddprun left that was killed last of all, the next one on the host removes.
    [ "$signal" != STOP ] || "${runtime[@]}" "$ddprun" -n 1 --device softgpu true
    nothing_left "$name"
}
hit "a supervisor is killed" any 'the ddprun of rank 2 .* is lost' 2 KILL
# On a machine that is very busy it may be stopped before it has said anything, and is given longer then.
limit=150 hit "a supervisor is silent" any 'the ddprun of rank 1 .*(is lost: it has been silent|has not started its rank)' 1 STOP \
    --heartbeat-timeout 3
hit "a supervisor is asked to end" 143 'SIGTERM: ending 3 ranks' 1 TERM
hit "Ctrl-C" any 'SIG(TERM|INT): ending 3 ranks' mpirun INT
hit "mpirun is killed" killed '' mpirun KILL
hit "supervisor 0 is killed" any 'rank 1 .* has lost the ddprun of rank 0' 0 KILL

job 2 "$ddprun" -n 2 "$fake"
failed_with "-n is mpirun's" 2 'number of ranks is that launcher'
job 2 "$ddprun" --no-such-option "$fake"
failed_with "wrong option" 2 'unknown .*--no-such-option'
job 2 "$ddprun" --max-restarts 1 "$fake"
failed_with "--max-restarts is mpirun's" 2 'max-restarts cannot'
# shellcheck disable=SC2016 # the ranks' shells expand it
job 2 sh -c 'exec "$0" --bucket-mb $((1 + OMPI_COMM_WORLD_RANK)) "$1"' "$ddprun" "$fake"
failed_with "options differ" 2 'ranks 0 .* and 1 .*--bucket-mb'
# shellcheck disable=SC2016
job 1 "$ddprun" -n 2 --device softgpu sh -c 'echo "I am $RANK of $WORLD_SIZE"'
succeeded "a job of one: our own server"
check "a job of one: two ranks" grep -q 'I am 1 of 2' "$work/stdout"
finish
