#!/usr/bin/env bash
# targets.sh BUILD - nothing that an option names as a file stops ddprun: a FIFO without a reader, one whose reader never reads, a full device, /dev/null, a
# terminal, a folder, a link of another user, a missing folder, a name with a newline. The job ends as it would without the option, one line names what was
# lost, SIGTERM ends it, and a killed rank is noticed. With DDPRUN_SOAK=1 each option of each command with each of them.
source "$(dirname "$0")/lib.sh"
watch_leftovers
cd "$work" || exit 1
soak=${DDPRUN_SOAK:-0}
short=("$ladder" --layers 2 --width 16 --batch 8 --steps 6)
long=("$ladder" --layers 2 --width 16 --batch 8 --steps 100000000)
lost='^ddprun: .*cannot write .*: (it gave no data for 2 s|No space left on device)'
other=65534 # a user that this one is not
open=()     # descriptors that keep pipes open
at_exit 'end_terminal'

end_terminal() {
    [ -z "${terminal_pid:-}" ] || kill "$terminal_pid"
}

# A terminal that something reads: its name goes to $terminal.
open_terminal() {
    [ -z "${terminal:-}" ] || return 0
    mkfifo terminal-name
    env -u DDPRUN_TEST_MARK python3 -c 'import os, pty
ours, theirs = pty.openpty()
open("terminal-name", "w").write(os.ttyname(theirs) + "\n")
while os.read(ours, 4096):
    pass' &
    terminal_pid=$!
    read -r terminal <terminal-name
}

# make KIND NAME: makes the target; its path goes to $target.
make() {
    target=$work/$2
    rm -rf "$target"
    case $1 in
    fifo) mkfifo "$target" ;;
    stalled)
        mkfifo "$target"
        exec {fd}<>"$target"
        open+=("$fd")
        dd if=/dev/zero of="$target" bs=4096 oflag=nonblock 2>"$work/dd" || true # it is full then
        ;;
    full) target=/dev/full ;;
    null) target=/dev/null ;;
    terminal) target=$terminal ;;
    folder) mkdir "$target" ;;
    missing) target+=/none/file ;;
    newline) target+=$'\nline' ;;
    foreign)
        mkdir -m 1777 "$target"
        printf 'mine\n' >"$target.victim"
        ln -s "$target.victim" "$target/link"
        chown -h "$other" "$target/link"
        target+=/link
        ;;
    esac
}

close_pipes() {
    local fd
    for fd in "${open[@]}"; do exec {fd}>&-; done
    open=()
}

# Of a kind: whether the file gets its content (takes), none (loses), or is refused before anything starts (refused).
declare -A fate=([fifo]=loses [stalled]=loses [full]=loses [null]=takes [terminal]=takes [folder]=refused [missing]=refused
    [newline]=takes [foreign]=refused)
kinds=(fifo stalled full null newline folder missing)
if command -v python3 >/dev/null; then
    open_terminal
    kinds+=(terminal)
fi
if [ "$(id -u)" -eq 0 ]; then kinds+=(foreign); else echo "# skipped: a link of another user (not root)"; fi

# ended NAME KIND LINES: the last command ended with $code as it has to: 0, with so many lines of loss, or refused by one line.
ended() {
    local lines
    if [ "${fate[$2]}" = refused ]; then
        failed_with "$1" 2 "."
        return
    fi
    lines=$(grep -cE "$lost" "$work/stderr")
    if [ "$code" -ne 0 ]; then
        not_ok "$1" "exit code $code"
    elif [ "${fate[$2]}" = loses ] && [ "$lines" -ne "$3" ]; then
        not_ok "$1" "$lines lines say what was lost, not $3"
    elif [ "${fate[$2]}" = takes ] && [ "$lines" -ne 0 ]; then
        not_ok "$1" "something was lost"
    else
        ok "$1"
    fi
}

# make_all KIND OPTION...: makes a target for each option; $words are the options with their targets.
make_all() {
    local option
    words=()
    for option in "${@:2}"; do
        make "$1" "at${option#--}"
        words+=("$option" "$target")
    done
}

# job KIND OPTION...: a job that has all these options ends well.
job() {
    local kind=$1 option=${*: -1}
    make_all "$@"
    shift
    run "$ddprun" -n 2 "${words[@]}" "${short[@]}"
    ended "$kind at $*: the job ends as without" "$kind" $#
    [ "$kind" != newline ] || check "$kind at $*: the file is there" [ -s "$target" ]
    [ "$kind" != foreign ] || check "$kind at $*: what the link leads to is as it was" grep -qx mine "$work/at${option#--}.victim"
    close_pipes
}

# reports KIND: a job that fails, with the whole report at the target.
reports() {
    make "$1" atreport
    run "$ddprun" -n 4 --hang-timeout 2 --failure-report "$target" "${short[@]}" --fault hang --fault-step 4 --fault-rank 1
    case ${fate[$1]} in
    refused) failed_with "$1 at --failure-report: refused" 2 "in --failure-report" ;;
    loses) check "$1 at --failure-report: the job fails as without, and the report is printed" lost_report ;;
    takes) check "$1 at --failure-report: the job fails as without, and the report is there" bash -c "[ $code -eq 1 ] && grep -q 'the whole report, ' '$work/stderr'" ;;
    esac
    close_pipes
}
lost_report() {
    [ "$code" -eq 1 ] && [ "$(grep -c "^ddprun: cannot write the report's file: " "$work/stderr")" -eq 1 ] && grep -q '  rank 3' "$work/stderr"
}

# prints KIND: ranks' own output. Nothing can stand in for a file that cannot be opened.
prints() {
    make "$1" rank-0.out
    mkdir -p printed
    rm -f printed/*
    case $1 in
    folder) mkdir printed/rank-0.out ;;
    foreign) chmod 1777 printed && ln -s "$work/victim" printed/rank-0.out && chown -h "$other" printed/rank-0.out ;;
    *) ln -s "$target" printed/rank-0.out ;;
    esac
    if [ "$1" = stalled ]; then # rank 0 waits for the reader, as it would without ddprun
        prints_stalled
        return
    fi
    run "$ddprun" -n 2 --output files=printed "${short[@]}"
    case $1 in
    fifo | folder | foreign | missing) failed_with "$1 at --output: no job" 1 "cannot write printed/rank-0.out, in --output: " ;;
    *) check "$1 at --output: the job ends as without" [ "$code" -eq 0 ] ;;
    esac
    rm -rf printed
    close_pipes
}

prints_stalled() {
    env --default-signal=INT,TERM "${runtime[@]}" "$ddprun" -n 2 --output files=printed -v "${long[@]}" >"$work/stdout" 2>"$work/stderr" </dev/null &
    job=$!
    within 20 grep -q 'rank 1 is process' "$work/stderr" || not_ok "the ranks start" "no line"
    kill -TERM "$job"
    ended_by "stalled at --output: SIGTERM ends the job" 143
    rm -rf printed
    close_pipes
}

# command_at KIND OPTION COMMAND WORDS...: a command that has OPTION TARGET in front of WORDS.
command_at() {
    local kind=$1 option=$2 lines
    make "$kind" atcommand
    run "$ddprun" "$3" "$option" "$target" "${@:4}"
    lines=$(grep -cE '^ddprun: .*cannot write ' "$work/stderr")
    case ${fate[$kind]} in
    refused) check "$kind at $3 $option: refused" [ "$code,$(grep -c '^ddprun: ' "$work/stderr")" = 2,1 ] ;;
    loses) check "$kind at $3 $option: one line names the file" [ "$code,$lines" = "${lossy:-1},1" ] ;;
    takes) check "$kind at $3 $option: written" [ "$code,$lines" = 0,0 ] ;;
    esac
    close_pipes
}

# begin OPTION...: a long job in the background, whose ranks train; its process is $job. It prints after another job of the test has begun, too.
begin() {
    rm -f "$work/stdout"
    env --default-signal=INT,TERM "${runtime[@]}" "$ddprun" -n 2 --progress on "$@" "${long[@]}" >"$work/stdout" 2>"$work/begun.stderr" </dev/null &
    job=$!
    within 60 grep -qs '^step 3 ' "$work/stdout" || not_ok "the job trains" "no step"
}

# ended_by NAME CODE: $job ends with CODE, and nothing is left of it.
ended_by() {
    code=0
    if ! within 20 eval '! kill -0 "$job" 2>/dev/null'; then
        not_ok "$1" "it hangs"
        kill -KILL "$job"
        return
    fi
    wait "$job" || code=$?
    check "$1" [ "$code" -eq "$2" ]
    check "$1: nothing is left" within 10 none_left
}

# watched KIND OPTION...: a killed rank is noticed, and SIGTERM ends the job, while the file takes nothing.
watched() {
    local kind=$1
    make_all "$@"
    shift
    begin "${words[@]}"
    kill -TERM "$job"
    ended_by "$kind at $*: SIGTERM ends the job" 143
    begin "${words[@]}"
    kill -KILL "$(pgrep -P "$job" ladder | tail -n 1)"
    ended_by "$kind at $*: a killed rank is noticed" 137
    close_pipes
}

watched fifo --metrics --summary-json --page
job fifo --metrics --summary-json --page
job full --metrics --summary-json --page
for kind in "${kinds[@]}"; do
    [ "${fate[$kind]}" != refused ] || job "$kind" --metrics
done
prints fifo

# Two jobs, one trace.
mkdir locked
begin --trace locked
fails "a folder that a running job writes its trace into" 2 "a running job writes its trace into locked, in --trace" "$ddprun" -n 2 --trace locked "${short[@]}"
kill -TERM "$job"
ended_by "... and that job goes on" 143
run "$ddprun" -n 2 --trace locked "${short[@]}"
check "... and the folder is free when the job has ended" [ "$code" -eq 0 ]

# paused: a summary to standard output, whose reader pauses for longer than a file's limit, loses nothing.
paused() {
    local fd reader
    make stalled pausing
    fd=${open[0]}
    "${runtime[@]}" "$ddprun" -n 2 --output none --summary-json /dev/stdout "${short[@]}" >"$target" 2>"$work/stderr" </dev/null &
    job=$!
    sleep 8 # longer than a start and the limit
    env -u DDPRUN_TEST_MARK cat <&"$fd" >"$work/read" &
    reader=$!
    ended_by "a reader of standard output that pauses: the job ends well" 0
    check "... and it gets the whole summary" within 20 grep -aq '"each_rank"' "$work/read"
    kill "$reader"
    close_pipes
}

if [ "$soak" = 1 ]; then
    paused
    for kind in "${kinds[@]}"; do
        for option in --metrics --summary-json --page; do job "$kind" "$option"; done
        job "$kind" --metrics --summary-json --page
        reports "$kind"
        prints "$kind"
        command_at "$kind" -o trace locked
        command_at "$kind" -o report locked
        command_at "$kind" --json scout "${short[@]}" --steps 12
        lossy=2 command_at "$kind" --json check "${short[@]}"
        case $kind in
        folder | missing | foreign) ;;
        *) watched "$kind" --metrics --summary-json --page ;;
        esac
    done
fi
finish
