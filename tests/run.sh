#!/usr/bin/env bash
# run.sh - all tests: installs what is missing, builds the release, runs its tests and the checks of tests/lint, then does the
# same with the sanitizers' builds. The last line counts test cases and checks; exit code 0 only if none failed.
#
# A test that cannot run on this machine ends with exit code 77 after a line "skipped: REASON"; it is named here with its
# reason and counted as skipped. The labels no-asan, no-tsan and soak keep a test out of the builds that they name.
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

mkdir -p build
cases=build/test-cases.txt # one line a case: passed NAME, failed NAME, skipped NAME: REASON
: >"$cases"

record() {
    printf '%s\n' "$*" >>"$cases"
}

# run_tests PRESET FOLDER LABELS: builds a preset and runs its tests but those with one of the labels.
run_tests() {
    local preset=$1 folder=$2 labels=$3 wrapper=()
    printf '\n==== %s\n' "$preset"
    if ! bash cmake/build.sh "$preset"; then
        record "failed $preset/build"
        return
    fi
    local -x TSAN_OPTIONS="suppressions=$root/tests/tsan.supp ${TSAN_OPTIONS:-}"
    # ThreadSanitizer wants the old memory layout; newer kernels randomise more of it than its runtime copes with.
    if [ "$preset" = tsan ] && setarch "$(uname -m)" -R true 2>/dev/null; then
        wrapper=(setarch "$(uname -m)" -R)
    fi
    local junit=$root/$folder/junit.xml
    rm -f "$junit"
    # One more than there are cores: tests of several processes wait for each other much of the time.
    "${wrapper[@]}" ctest --test-dir "$folder" --output-junit "$junit" --output-on-failure --parallel "$(($(nproc) + 1))" \
        --timeout 300 --tests-regex "$filter" --label-exclude "$labels" </dev/null || true
    if [ -s "$junit" ]; then
        awk -f tests/count_cases.awk "$junit" | sed -E "s,^([a-z]+) ,\1 $preset/," >>"$cases"
    else
        record "failed $preset/ctest: it wrote no report"
    fi
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

bash cmake/setup.sh --tests

left_out=soak
[ "$soak" -eq 0 ] || left_out=never
run_tests release build "^($left_out)\$"
printf '\n==== checks\n'
for check in tests/lint/*.sh; do
    run_check "lint/$(basename "$check" .sh)" bash "$check" build
done
run_check main_job timeout -k 5 300 bash samples/run.sh
if [ "$quick" -eq 0 ]; then
    run_tests asan build/asan "^(no-asan|$left_out)\$"
    run_tests tsan build/tsan "^(no-tsan|$left_out)\$"
fi

count() {
    grep -c "^$1 " "$cases" || true
}
printf '\n==== all\n'
grep -E '^(failed|skipped) ' "$cases" || true
if [ ! -s "$cases" ]; then
    printf 'no test or check matches %s\n' "$filter"
    record "failed $filter"
fi
failed=$(count failed)
printf '%s passed, %s failed, %s skipped\n' "$(count passed)" "$failed" "$(count skipped)"
[ "$failed" -eq 0 ]
