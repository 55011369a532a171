# shellcheck shell=bash disable=SC2154,SC2034 # $report, $build, $device, $now are of first.sh
# commands.sh - how first.sh runs a command: with a limit, and with all that it says in a folder of its own. Sourced by first.sh.
#
# A block of checks ends after its seconds. A command gets what is left of them at most; one for which none is left is not run. The rows of
# both say so (report_row), whatever they would have said.
block_end=0 # of the present block, in $SECONDS; 0: none runs
reserve=3   # seconds of a block that no command gets: a job that is ended needs them

runs=0 log='' log_differs=0
out_of_time='' # why the last command says nothing, or ''

# log_begin: a folder for what the next command says. The trace of one whose rows are all as expected goes.
log_end() { [ -z "$log" ] || [ "$log_differs" -eq 1 ] || rm -rf "$log/trace"; }
log_begin() {
    log_end
    runs=$((runs + 1)) log_differs=0 out_of_time=''
    log=$report/logs/$(printf '%03d-%s' "$runs" "$now")
    { mkdir -p "$log" && : >"$log/stdout" && : >"$log/stderr"; } 2>/dev/null || report_fails
}

# no_log: the next row is of no command.
no_log() {
    log_end
    log='' out_of_time=''
}

# run LIMIT COMMAND...: its exit code to $code; its output, and in ddprun() its summary, stay in $log
run() {
    log_begin
    run_logged "$@"
}

run_logged() {
    local limit left is_cut=0
    code=0
    limit=$(patient "$1")
    left=$((block_end - SECONDS - reserve))
    if [ "$block_end" -gt 0 ] && [ "$left" -lt "$limit" ]; then
        limit=$left is_cut=1
    fi
    printf '%q ' "${@:2}" 2>/dev/null >"$log/command" || report_fails
    if [ "$limit" -lt 1 ]; then
        code=124 out_of_time="the time of its block was over"
    else
        timeout -k 2 "$limit" "${@:2}" </dev/null >"$log/stdout" 2>"$log/stderr" || code=$?
        [ "$is_cut" -eq 0 ] || { [ "$code" -ne 124 ] && [ "$code" -ne 137 ]; } ||
            out_of_time="it had not ended after $limit s, when the time of its block was over"
    fi
    echo "$code" 2>/dev/null >"$log/exit_code" || report_fails
}

ddprun() { # LIMIT RANKS OPTIONS AND PROGRAM...; the word TRACE is the folder of a trace
    log_begin
    local words=("${@:3}")
    run_logged "$1" "$build/bin/ddprun" "${device[@]}" -n "$2" --summary-json "$log/summary.json" "${words[@]/#TRACE/$log/trace}"
}

# of the last summary: the number behind this name
summary() {
    sed -n "s/^  \"$1\": \([-0-9.e+]*\),*\$/\1/p" "$log/summary.json" 2>/dev/null
}

# The last line that says something; ddprun's own, that a rank's output may say why, does not.
why() {
    local line
    line=$(grep -v -e '^$' -e 'its last output may say why' "$log/stderr" 2>/dev/null | tail -n 1)
    [ -n "$line" ] || line=$(tail -n 1 "$log/stdout" 2>/dev/null)
    [ "$code" -ne 124 ] && [ "$code" -ne 137 ] || line="it was ended, for it took too long${line:+: $line}"
    printf '%s' "${line:-no output}"
}

# expect_success NAME EXPECTED SEEN: a row that is ok if the last command ended with 0, and not run if a program found what it needs not to
# be here (exit code 77)
expect_success() {
    case $code in
    0) report_row "$1" "$2" "${3:-exit code 0}" ok ;;
    77) report_row "$1" "$2" "$(why)" 'not run' ;;
    *) report_row "$1" "$2" "exit code $code: $(why)" differs ;;
    esac
}

# rows NAME: what the last command printed is rows
rows() {
    local name expected seen verdict
    while IFS=$'\t' read -r name expected seen verdict; do
        report_row "$name" "$expected" "$seen" "$verdict"
    done <"$log/stdout"
    [ "$code" -eq 0 ] || report_row "$1" "exit code 0" "exit code $code: $(why)" differs
}

median() { # numbers on stdin
    sort -g | awk '{ v[NR] = $1 } END { if (NR) print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

# first_figure PROCESS: waits until it has written to $work/used, or has ended; 10 s at most.
first_figure() {
    local i
    for ((i = 0; i < 100; i++)); do
        [ ! -s "$work/used" ] || return 0
        kill -0 "$1" 2>/dev/null || return 0
        sleep 0.1 # between looks
    done
}

# memory_of COMMAND...: runs a command of ddprun; $memory_used becomes how many MiB more its ranks' GPUs had in use at most than before, or "" (no nvidia-smi)
memory_of() {
    local watcher
    : >"$work/used"
    timeout 600 nvidia-smi --query-gpu=index,uuid,memory.used --format=csv,noheader,nounits -lms 100 >"$work/used" 2>/dev/null &
    watcher=$!
    first_figure "$watcher" # of before the command
    "$@"
    kill "$watcher" 2>/dev/null
    wait "$watcher" 2>/dev/null
    sed -n 's/^ *"gpu": "\(GPU\|device\) \([^ "]*\).*/\2/p' "$log/summary.json" 2>/dev/null | sort -u >"$work/gpus"
    [ "$rehearse" -eq 0 ] || echo 0 >"$work/gpus" # the stand-in's devices have no numbers
    memory_used=$(awk -F ', *' 'NR == FNR { of_ranks[$1] = 1; next }
        !($1 in of_ranks) && !($2 in of_ranks) { next }
        !($1 in first) { first[$1] = most[$1] = $3 }
        $3 > most[$1] { most[$1] = $3 }
        END { for (gpu in first) { sum += most[gpu] - first[gpu]; ++count }; if (count) print sum }' "$work/gpus" "$work/used")
}
