#!/usr/bin/env bash
# unaveraged.sh BUILD - what trains without an average does not do so for long: a program that is not annotated is refused, or warned
# about; one without DDP_STEP is ended after its second update; every end of either is said, and is not 0. Programs that look alike and
# are right hear nothing: long accumulation, evaluation, a wrapper, a trainer in a library that is loaded, two trainings.
source "$(dirname "$0")/lib.sh"
limit=60
stepless=$build/tests/trainers/stepless
plain=${stepless}_plain
host=${stepless}_host
core=${stepless}_core.so

# one_line NAME CODE PATTERN [COMMAND...]: the command, or the last one, ended with CODE, and exactly one line of ddprun's matches.
one_line() {
    local lines
    [ $# -eq 3 ] || run "${@:4}"
    lines=$(grep -cE "^ddprun: .*($3)" "$work/stderr")
    if [ "$code" -ne "$2" ]; then
        not_ok "$1" "exit code $code instead of $2"
    else
        check "$1" [ "$lines" -eq 1 ]
    fi
}

# silent NAME COMMAND...: it ends with 0, and ddprun says nothing.
silent() {
    run "${@:2}"
    if [ "$code" -ne 0 ]; then
        not_ok "$1" "exit code $code"
    else
        check "$1" bash -c "! grep -q '^ddprun: ' '$work/stderr'"
    fi
}

# until_said SIGNAL WORDS PROGRAM...: sends the signal to a job once one of its lines has the words; $code is its exit code.
until_said() {
    local signal=$1 words=$2 job
    shift 2
    : >"$work/stdout" # else the words of the last job count
    : >"$work/stderr"
    env --default-signal=INT "${runtime[@]}" "$ddprun" -n 2 --device softgpu "$@" </dev/null >"$work/stdout" 2>"$work/stderr" &
    job=$!
    within 40 grep -qs "$words" "$work/stdout" "$work/stderr" || not_ok "the job says $words" "no line"
    kill -s "$signal" "$job"
    code=0
    wait "$job" || code=$?
}

# ---- a program that is not annotated, before it starts ----
fails "kernels and no annotation: refused" 2 "stepless_plain holds CUDA kernels and no annotation of ddprun.h: 2 copies would train .*--unannotated" "$ddprun" -n 2 "$plain" train 8
check "kernels and no annotation: nothing ran" [ ! -s "$work/stdout" ]
silent "kernels and no annotation, one rank" "$ddprun" -n 1 "$plain" train 8
fails "kernels and no annotation: check refuses at once" 2 "stepless_plain holds CUDA kernels and no annotation of ddprun.h" "$ddprun" check -n 2 "$plain" train 8
silent "--unannotated: copies run" "$ddprun" -q -n 2 --unannotated "$plain" train 8
check "--unannotated: on each rank" [ "$(grep -c 'pass 8$' "$work/stdout")" -eq 2 ]

# ---- the same, behind a wrapper: by what it does ----
wrapped=("$ddprun" -n 2 --device softgpu)
one_line "an end without an annotation" 1 "the program launched 50 kernels and ended without a DDP_STEP: nothing is annotated" "${wrapped[@]}" env "$plain" train 8
one_line "_Exit without an annotation" 1 "rank [01] launched [0-9]+ kernels and ended without an annotation: nothing was averaged" "${wrapped[@]}" env "$plain" train 8 leave
silent "the same with --unannotated" "${wrapped[@]}" -q --unannotated env "$plain" train 8 leave
DDPRUN_TEST_UNANNOTATED_MS=0 until_said SIGTERM 'no annotation' env "$plain" train 1 loop
one_line "no annotation in 1,000 launches: a warning" 143 "no annotation .ddprun.h. in [0-9]{4,} kernel launches: 2 ranks train side by side"
silent "an annotation after 900 launches" env DDPRUN_TEST_UNANNOTATED_MS=0 "${wrapped[@]}" -q env "$stepless" late 900
silent "an annotation after 2,000 launches, within the time" "${wrapped[@]}" -q env "$stepless" late 2000

# ---- annotated, and no DDP_STEP ----
run "$ddprun" -n 2 "$stepless" train 1 loop
one_line "no DDP_STEP: ended" 1 "parameter [1-9] of [0-9] \(.weights\[t\]., [0-9]+ float32, stepless.cu:[0-9]+\) has changed twice in [0-9]{1,2} kernel launches without a DDP_STEP"
run "$ddprun" -n 2 "$stepless" train 2
one_line "no DDP_STEP, and an end after two updates" 1 "parameter [1-9] of [0-9] \(.weights\[t\]..* has changed since it was annotated, and the program ended without a DDP_STEP"
# The rank that ends the job has printed it; the other may not have come so far.
check "a job that is ended: what was printed is there" grep -Eqx '(\[1\] )?pass 2' "$work/stdout"
run "$ddprun" -n 2 --output "files=$work/files" "$stepless" train 2
check "a job that is ended: and in files" grep -qx 'pass 2' "$work/files/rank-0.out" "$work/files/rank-1.out"
run "$ddprun" -n 2 --device softgpu sh -c 'exec "$0" train 2 >"$1-$RANK"' "$stepless" "$work/redirected"
check "a job that is ended: a script's own redirection is left as it is" [ ! -s "$work/redirected-0" ]
one_line "no DDP_STEP, and _Exit" 1 "rank [01] annotated 2 gradients and ended without a DDP_STEP" "$ddprun" -n 2 "$stepless" train 2 leave
one_line "no gradient is annotated" 1 "has changed since it was annotated, and the program ended without a DDP_STEP" "$ddprun" -n 2 "$stepless" parameters 8
one_line "no gradient is annotated, and _Exit" 1 "parameters of rank [01] changed, and it ended without a DDP_STEP" "$ddprun" -n 2 "$stepless" parameters 8 leave
silent "no DDP_STEP, --unannotated" "$ddprun" -q -n 2 --unannotated "$stepless" train 8
run "$ddprun" -q -n 2 "$stepless" early 8
one_line "parameters that are initialised after their annotation: a warning" 0 "parameter [1-9] of [0-9] \(.weights\[t\]..* changed between DDP_PARAMETER and the first DDP_STEP"

# ---- a library of the program that joins the job of another PMIx server ----
mpi=$(ldconfig -p 2>/dev/null | sed -n 's/.*libmpi\.so\.40 .*=> //p' | head -n 1)
if [ -n "$mpi" ] && [ "$sanitized" -eq 0 ]; then
    # Open MPI now and then fails to start the daemon that it wants beside a program: that is not ddprun's.
    with_daemon() {
        for _ in 1 2 3 4 5; do
            "$@"
            grep -q 'Unable to start a daemon on the local node' "$work/stderr" || return 0
        done
        echo "skipped: Open MPI starts no daemon here"
        return 1
    }
    if with_daemon run env "STEPLESS_MPI=$mpi" "${wrapped[@]}" "$host" "$core" steps 4; then
        check "MPI_Init before the first annotation: exit code" [ "$code" -eq 0 ]
        check "MPI_Init before the first annotation: two ranks average" grep -q '^ddprun: 2 ranks, 4 steps' "$work/stderr"
    fi
    # Such ranks do not notice the end of ddprun; its guardian does.
    mkdir "$work/own"
    no_job_folder() { [ -z "$(find "$work/own" -maxdepth 1 -name 'ddprun-*')" ]; }
    killed() { XDG_RUNTIME_DIR='' TMPDIR=$work/own STEPLESS_MPI=$mpi until_said KILL 'ready\|Unable to start' "$host" "$core" steps 4 wait; }
    if with_daemon killed; then
        check "MPI_Init before the first annotation, and ddprun is killed: a rank was ready" grep -q ready "$work/stdout"
        check "MPI_Init before the first annotation, and ddprun is killed: the job folder is removed" within 20 no_job_folder
    fi
else
    echo "skipped: MPI_Init before the first annotation: there is no libmpi.so.40 here (Debian: openmpi-bin)"
fi

# ---- a signal ----
interrupted() { until_said "$1" ready "${@:2}" wait; }
interrupted INT "$stepless" train 2
one_line "SIGINT, and no DDP_STEP" 130 "nothing was averaged: parameters of rank [01] changed without a DDP_STEP"
interrupted TERM env "$plain" train 2
one_line "SIGTERM, and no annotation" 143 "nothing was averaged: rank [01] launched [0-9]+ kernels without an annotation"
interrupted INT "$stepless" evaluate 4
check "SIGINT in an evaluation: no word of it" bash -c "[ $code -eq 130 ] && ! grep -q averaged '$work/stderr'"
interrupted INT "$stepless" steps 4
check "SIGINT in a training: no word of it" bash -c "[ $code -eq 130 ] && ! grep -q 'nothing was' '$work/stderr'"
interrupted INT --unannotated "$plain" train 4
check "SIGINT, --unannotated: no word of it" bash -c "[ $code -eq 130 ] && ! grep -q averaged '$work/stderr'"

# ---- right programs ----
accumulates_ms=300
[ -z "${DDPRUN_SOAK:-}" ] || accumulates_ms=22000
silent "accumulation over $accumulates_ms ms" "$ddprun" -q -n 2 "$stepless" accumulate "$accumulates_ms"
for how in return leave; do
    silent "evaluation, $how" "$ddprun" -n 2 "$stepless" evaluate 8 "$how"
done
silent "only one group of two has a DDP_STEP" "$ddprun" -q -n 2 "$stepless" group 8
silent "two trainings in a row" "$ddprun" -q -n 2 "$stepless" twice 4
silent "a wrapper" "${wrapped[@]}" -q env "$stepless" steps 4
silent "a script, of two trainings" "${wrapped[@]}" -q sh -c '"$0" steps 4 && "$0" steps 3' "$stepless"
silent "a trainer in a library that is loaded" "$ddprun" -q -n 2 "$host" "$core" steps 4
silent "evaluation, --quiet" "$ddprun" -q -n 2 "$stepless" evaluate 4
finish
