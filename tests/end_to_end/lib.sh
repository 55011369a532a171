# shellcheck shell=bash disable=SC2034 # the scripts that source it use its variables
# lib.sh - what the end-to-end scripts share beside tests/lib/lib.sh: where the build's programs are, how a command runs, and what its end
# is held against. Sourced with the build folder as $1.
set -uo pipefail
# shellcheck source=tests/lib/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/lib.sh"
build=$(cd "$1" && pwd)
ddprun=$build/bin/ddprun
ladder=$build/tests/trainers/ladder
digits=$build/samples/digits
digits_plain=$build/samples/digits_plain
compare=$build/samples/compare
data=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../samples/data" && pwd)/digits.csv
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-e2e-XXXXXX")
export XDG_CACHE_HOME=$work/cache # plans that are kept stay in the test
export DDPRUN_FAILURE_REPORT=-            # reports are looked at whole, and leave no file
at_exit 'rm -rf "$work"'
shown=$work/stderr

# With sanitizers the trainer has no runtime of its own for the libraries beneath it: it is preloaded, before the shim. The runtime's
# dlopen loses the caller's RUNPATH, so the stand-in's folder is named.
runtime=()
sanitized=0
if grep -q 'DDPRUN_SANITIZE:STRING=.*address' "$build/CMakeCache.txt"; then
    sanitized=1 # and slow: the scripts train for fewer steps
    runtime=(env "LD_LIBRARY_PATH=$build/lib/softgpu" "LD_PRELOAD=$(gcc -print-file-name=libasan.so):$(gcc -print-file-name=libubsan.so)"
        ASAN_OPTIONS=detect_leaks=0:handle_segv=0:abort_on_error=0:exitcode=99 UBSAN_OPTIONS=halt_on_error=1:exitcode=99)
fi

# What a test waits for that is meant not to come, in seconds: long enough for a slow start, short enough to wait for.
patience=$(patient $((sanitized ? 3 : 1)) "${DDPRUN_TEST_PATIENCE:-$((sanitized ? 15 : 5))}")

# Where programs that name no device run, and how close N ranks get to one process: tests/gpu/run.sh says otherwise.
device=${DDPRUN_TEST_DEVICE:-softgpu}
close=${DDPRUN_TEST_CLOSE:-1e-5}

# Runs a command with a time limit; stdout and stderr go to $work, the exit code to $code. All trainers but those of forgotten.sh
# have annotated what they train.
asks=none
run() {
    code=0
    timeout -k 2 "$(patient "${limit:-120}")" "${runtime[@]}" "$@" </dev/null >"$work/stdout" 2>"$work/stderr" || code=$?
    [ "$asks" = any ] || not_asked "$work/stderr" >"$work/asked" || not_ok "nothing is asked of forgotten memory" "$(cat "$work/asked")"
}

# computes_alike NAME PROGRAM...: a trainer that finds a weight which it does not expect ends with the same one, with overlap and without
# it: 2 ranks have averaged what its gradients were at DDP_STEP.
computes_alike() {
    local name=$1 found with
    shift
    for with in "" --no-overlap; do
        run "$ddprun" -n 2 ${with:+"$with"} --bucket-mb 0.005 "$@"
        found+=" $(grep -ohE 'weight [0-9]+ of layer .*' "$work/stderr" | sort | head -n 1)"
    done
    check "$name: with overlap and without it:$found" grep -Eq '^ (weight .*[0-9]) \1$' <<<"$(sed 's/"$//; s/" / /' <<<"$found")"
}

# nccl_in_turn: from now on the stand-in's NCCL is as ever, or, by this run's part, as on machines with GPUs in one way.
nccl_in_turn() {
    case $((part % 5)) in
    1) export SOFTGPU_NCCL_CALLS=1 ;;
    2) export SOFTGPU_NCCL_MEETS=registered ;;
    3) export SOFTGPU_NCCL_MEETS=all ;;
    4) export SOFTGPU_NCCL_TAKES=50 ;;
    esac
}

# watch_leftovers: what is left in $TMPDIR, and by none_left, is this test's.
watch_leftovers() {
    export TMPDIR=$work/tmp DDPRUN_TEST_MARK=$work # in the environment of all that is started
    mark=$work
    mkdir "$TMPDIR"
}

# ends NAME CODE PATTERN: the last command ended so, has said why, and has left nothing.
ends() {
    check "$1: exit code $2, not $code" test "$code" -eq "$2"
    check "$1: says why" grep -Eq "$3" "$work/stderr"
    check "$1: leaves nothing" test -z "$(ls -A "$TMPDIR")"
    check "$1: leaves no process" within 5 none_left
}

# install_broken: $broken is as installed, but for the recorder and player, which do what DDPRUN_MUTANT says.
broken=$work/broken
install_broken() {
    mkdir -p "$broken/bin" "$broken/lib"
    cp "$ddprun" "$broken/bin/"
    ln -s "$build"/lib/libddprun{,-engine,-check,-files}.so "$build/lib/softgpu" "$broken/lib/"
    [ ! -e "$build/tests/mutants/libddprun-scout.so" ] || ln -s "$build/tests/mutants/libddprun-scout.so" "$broken/lib/"
}

# planned NAME FILE PROGRAM...: `ddprun scout` makes the plan, and proves it.
planned() {
    run "$ddprun" -q --device softgpu scout --prove --json "$2" "${@:3}"
    check "$1: proof (d) passes" grep -q '^proof (d): passed' "$work/stdout"
}

# succeeded NAME: the last command ended with 0.
succeeded() {
    check "$1" [ "$code" -eq 0 ]
}

# works NAME COMMAND...: it ends with exit code 0.
works() {
    run "${@:2}"
    succeeded "$1"
}

# same_on_all_ranks NAME RANKS: they have saved the same bits as "$work/rank-N".
same_on_all_ranks() {
    local rank
    for ((rank = 1; rank < $2; rank++)); do
        check "$1: ranks 0 and $rank are bitwise the same" cmp "$work/rank-0" "$work/rank-$rank"
    done
}

# overlapped NAME: the last command says that steps overlapped.
overlapped() {
    check "$1: overlaps" grep -Eq ' [1-9][0-9]* of them overlapped' "$work/stderr"
}

# failed_with NAME CODE PATTERN: it ended with CODE, and stderr has exactly one line of ddprun's that matches; after a failure, that is its only
# line, but for those in which other hosts repeat it.
failed_with() {
    local own lines all
    own=$(grep '^ddprun: ' "$work/stderr" | grep -vE '^ddprun: the ddprun of rank 0 \(host [^)]*\) ends the job: ')
    lines=$(grep -c -E "^ddprun: .*($3)" <<<"$own")
    all=$(grep -c '^ddprun: ' <<<"$own")
    if [ "$code" -ne "$2" ]; then
        not_ok "$1" "exit code $code instead of $2"
    elif [ "$lines" -ne 1 ]; then
        not_ok "$1" "$lines lines match /$3/"
    elif [ "$2" -ne 0 ] && [ "$all" -ne 1 ]; then
        not_ok "$1" "$all lines of ddprun's instead of one"
    else
        ok "$1"
    fi
}

# looked_at PAGE...: where Chromium is installed, the pages are as browser.py wants them.
looked_at() {
    chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
        { echo '# skipped: Chromium is not installed; pages are not looked at' && return; }
    check "Chromium shows $# pages, also narrow, dark and printed; tables sort, the timeline zooms, and text stands without JavaScript" \
        python3 "$(dirname "${BASH_SOURCE[0]}")/browser.py" "$chromium" "$@"
}

# fails NAME CODE PATTERN COMMAND...: it ends so (failed_with).
fails() {
    run "${@:4}"
    failed_with "$1" "$2" "$3"
}
