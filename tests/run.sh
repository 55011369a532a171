#!/usr/bin/env bash
# run.sh - all tests: installs what is missing, builds the release and runs its tests, then does the same with the sanitizers'
# builds, and runs the checks of tests/lint. The last line counts test cases and checks; exit code 0 only if none failed.
#
# A test that cannot run on this machine ends with exit code 77 after a line "skipped: REASON"; it is named here with its
# reason and counted as skipped. The labels no-asan, no-tsan and soak keep a test out of the builds that they name; soak-asan and
# soak-tsan do so unless --soak is given. Of tests with a label turn-N builds with a sanitizer run those of one N, by TESTS_PART. What it
# took is printed before: wall and CPU time of each stage, and the tests that took longest. With TESTS_RETRY=1 in the environment, up to three tests of
# a build that fail beside others run three times more, alone: one that passes three times is named as unsteady, and counts as passed.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

usage() {
    cat <<'END'
Usage: bash tests/run.sh [options]
Builds and runs all tests and checks.

  --quick         the release build only, no sanitizers
  --soak          also the long runs
  --filter REGEX  only tests and checks whose name matches, such as unit/ or lint/
  --help          print this
END
}

quick=0
soak=0
filter=.
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=1 ;;
    --soak) soak=1 ;;
    --filter)
        [ $# -ge 2 ] || {
            echo 'run.sh: --filter wants a regular expression; --help lists the options' >&2
            exit 2
        }
        filter=$2
        shift
        ;;
    --help)
        usage
        exit 0
        ;;
    *)
        printf 'run.sh: %s: unknown option; --help lists them\n' "$1" >&2
        exit 2
        ;;
    esac
    shift
done
[ "$soak" -eq 0 ] || export DDPRUN_SOAK=1
export PROGRAMS_FROM=$root/build # of the builds with a sanitizer

mkdir -p build
cases=build/test-cases.txt # one line a case: passed NAME, failed NAME, skipped NAME: REASON; besides, unsteady NAME: WHAT
stages=build/test-stages.txt # one line a stage: NAME SECONDS CPU-SECONDS
dearest=build/test-times.txt # one line a test: SECONDS NAME
: >"$cases"
: >"$stages"
: >"$dearest"

record() {
    printf '%s\n' "$*" >>"$cases"
}

# Tests wait for each other and for clocks much of their time; what the machine has left then goes to the builds and checks
# that come later, which run below everything else.
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-run-XXXXXX")
spare=() # their processes, each the head of a group
end() {
    local pid
    for pid in "${spare[@]}"; do
        kill -TERM -- "-$pid" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap end EXIT

# stage NAME COMMAND...: runs a stage in a shell of its own, which knows the CPU time of what it has waited for.
stage() (
    trap - EXIT
    name=$1 began=${EPOCHREALTIME/[.,]/} code=0
    shift
    "$@" || code=$?
    times >"$work/times-${name//\//-}"
    awk -v name="$name" -v wall_us="$((${EPOCHREALTIME/[.,]/} - began))" '
        { for (i = 1; i <= 2; ++i) { split($i, part, /[ms]/); cpu += 60 * part[1] + part[2] } }
        END { printf "%s %.0f %.0f\n", name, wall_us / 1e6, cpu }' "$work/times-${name//\//-}" >>"$stages"
    exit "$code"
)

# in_spare_time NAME STAGE COMMAND...: starts a stage once the one before has ended. Its output waits for it in $work/NAME.log.
in_spare_time() {
    local name=$1 before=
    shift
    [ ${#spare[@]} -eq 0 ] || before=${spare[-1]}
    set -m # a group of its own
    (
        trap - EXIT
        set +m
        chrt --idle --pid 0 "$BASHPID" 2>/dev/null || true
        [ -z "$before" ] || tail --pid="$before" -f /dev/null
        stage "$@"
    ) >"$work/$name.log" 2>&1 </dev/null &
    spare+=($!)
    set +m
}

# await NAME: shows the output of what in_spare_time has started first, to its end. Returns its exit code.
await() {
    local code=0
    tail -n +1 -f --pid="${spare[0]}" "$work/$1.log"
    wait "${spare[0]}" || code=$?
    spare=("${spare[@]:1}")
    return "$code"
}

# run_tests PRESET FOLDER LABELS: runs the tests of a build but those with one of the labels, and with TESTS_RETRY=1 what fails beside
# others again, alone. More than three have a common cause.
run_tests() {
    local preset=$1 folder=$2 labels=$3 wrapper=() failed name
    local -x TSAN_OPTIONS="suppressions=$root/tests/lib/tsan.supp ${TSAN_OPTIONS:-}"
    # ThreadSanitizer wants the old memory layout; newer kernels randomise more of it than its runtime copes with.
    if [ "$preset" = tsan ] && setarch "$(uname -m)" -R true 2>/dev/null; then
        wrapper=(setarch "$(uname -m)" -R)
    fi
    local junit=$root/$folder/junit.xml again=$root/$folder/junit-again.xml
    local ctest=("${wrapper[@]}" ctest --test-dir "$folder" --output-on-failure --timeout 3600)
    rm -f "$junit" "$again"
    # More than there are cores: tests of several processes wait for half of their time.
    "${ctest[@]}" --output-junit "$junit" --parallel "$((2 * $(nproc) + 1))" --tests-regex "$filter" --label-exclude "$labels" \
        </dev/null || true
    if [ ! -s "$junit" ]; then
        record "failed $preset/ctest: it wrote no report"
        return
    fi
    awk -f tests/lib/count_cases.awk "$junit" | sed -E "s,^([a-z]+) ,\1 $preset/," >"$work/cases" || record "failed $preset/count"
    failed=$(grep -c '^failed ' "$work/cases" || true)
    if [ "${TESTS_RETRY:-0}" = 1 ] && [ "$failed" -ge 1 ] && [ "$failed" -le 3 ]; then
        "${ctest[@]}" --output-junit "$again" --rerun-failed --repeat until-fail:3 </dev/null || true
        for name in $(awk -f tests/lib/count_cases.awk "$again" | sed -n 's/^passed //p'); do
            sed -i "s,^failed $preset/$name\$,passed $preset/$name\nunsteady $preset/$name: failed once\, then passed three times alone," \
                "$work/cases"
        done
    fi
    cat "$work/cases" >>"$cases"
    sed -nE "s,.*<testcase name=\"([^\"]*)\".* time=\"([0-9.]*)\".*,\2 $preset/\1,p" "$junit" >>"$dearest"
}

# run_check NAME COMMAND...: one check outside ctest, with the same exit codes.
run_check() {
    local name=$1 output code=0
    shift
    [[ $name =~ $filter ]] || return 0
    output=$("$@" 2>&1 </dev/null) || code=$?
    case $code in
    0)
        printf '%-20s passed  %s\n' "$name" "$(tail -n 1 <<<"$output")"
        record "passed $name"
        ;;
    77)
        printf '%-20s skipped %s\n' "$name" "$output"
        record "skipped $name: $(sed -n 's/^skipped: //p' <<<"$output")"
        ;;
    *)
        printf '%-20s FAILED\n%s\n' "$name" "$output"
        record "failed $name"
        ;;
    esac
}

run_checks() {
    local check
    for check in tests/lint/*.sh; do
        run_check "lint/$(basename "$check" .sh)" bash "$check" build
    done
}

bash cmake/setup.sh --tests

left_out=soak others="turn-[^$((${TESTS_PART:-0} % 3))]"
[ "$soak" -eq 0 ] || left_out=never others=never
printf '\n==== release\n'
if stage release/build bash cmake/build.sh release tests; then
    [ "$quick" -ne 0 ] || in_spare_time asan asan/build bash cmake/build.sh asan tests
    [ "$quick" -ne 0 ] || in_spare_time tsan tsan/build bash cmake/build.sh tsan tests
    in_spare_time checks checks run_checks
    stage release/tests run_tests release build "^($left_out)\$"
    stage main_job run_check main_job bash softgpu/tests/lib/patience.sh 300 bash samples/run.sh
    for preset in asan tsan; do
        [ "$quick" -eq 0 ] || break
        printf '\n==== %s\n' "$preset"
        if await "$preset"; then
            stage "$preset/tests" run_tests "$preset" "build/$preset" "^(no-$preset|$left_out|$left_out-$preset|$others)\$"
        else
            record "failed $preset/build"
        fi
    done
    printf '\n==== checks\n'
    await checks || record "failed checks"
else
    record "failed release/build"
fi

printf '\n==== time\n'
awk -v wall="$SECONDS" '
    { printf "%-14s %5d s, %5d s of CPU\n", $1, $2, $3; cpu += $3 }
    END { printf "%-14s %5d s, %5d s of CPU\n", "in all", wall, cpu }' "$stages"
echo 'the tests that took longest:'
sort -rn "$dearest" | awk 'NR <= 5 { printf "%6d s %s\n", $1, $2 }'

count() {
    grep -c "^$1 " "$cases" || true
}
printf '\n==== all\n'
grep -E '^(failed|skipped|unsteady) ' "$cases" || true
if [ ! -s "$cases" ]; then
    printf 'no test or check matches %s\n' "$filter"
    record "failed $filter"
fi
failed=$(count failed)
[ "${TESTS_RETRY:-0}" != 1 ] || printf '%s tests failed, and passed when they ran again\n' "$(count unsteady)"
printf '%s passed, %s failed, %s skipped\n' "$(count passed)" "$failed" "$(count skipped)"
[ "$failed" -eq 0 ]
