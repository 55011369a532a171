# shellcheck shell=bash disable=SC2034 # the scripts that source it use its variables
# cluster.sh - what the tests of jobs on two hosts share. Sourced with the build folder as $1, in place of end_to_end/lib.sh, which it
# brings along; the script continues in the namespaces of hosts.sh, with both hosts up.
# shellcheck source=tests/cluster/hosts.sh
source "$(dirname "$0")/hosts.sh"
hosts_enter "$0" "$@"
hosts_up
export TMPDIR=$hosts_work # lib.sh works there: memory that both hosts see
# shellcheck source=tests/end_to_end/lib.sh
source "$(dirname "$0")/../end_to_end/lib.sh"
limit=120

# What is there before a job: daemons and whatever they start once.
quiet_processes=
note_quiet() {
    local host
    quiet_processes=$(for host in "${hosts_names[@]}"; do hosts_processes "$host"; done)
}

# What a job left on the hosts: processes, files in /dev/shm and in TMPDIR, one a line.
leftovers() {
    local host
    for host in "${hosts_names[@]}"; do
        hosts_processes "$host" | grep -vxF "$quiet_processes" | while read -r process; do
            printf '%s: process %s: %s\n' "$host" "$process" "$(tr '\0' ' ' 2>/dev/null <"/proc/$process/cmdline")"
        done
        hosts_on "$host" find /dev/shm "$hosts_work/tmp" -mindepth 1 -printf "$host: %p\n"
    done
}
nothing_left() {
    [ -z "$(leftovers)" ] || {
        leftovers
        return 1
    }
}

no_process_left() {
    [[ $(leftovers) != *': process '* ]]
}

# clean NAME: in the end nothing of the job is left on any host.
clean() {
    if within 30 nothing_left >/dev/null; then ok "$1: nothing is left"; else not_ok "$1: nothing is left" "$(leftovers | tr '\n' ';')"; fi
}

# Bytes that a host has received from the other.
received_bytes() {
    hosts_on "$1" awk '/eth0:/ { sub(/.*:/, ""); print $1 }' /proc/net/dev
}

# equal NAME SERIAL COMMAND...: four ranks train, saving to "$work/rank-%d": bitwise the same on all, serial up to summation order, and
# the gradients crossed the link.
equal() {
    local name=$1 serial=$2 rank before after
    shift 2
    rm -f "$work"/rank-*
    before=$(received_bytes h2)
    run "$@"
    after=$(received_bytes h2)
    succeeded "$name: ends well"
    same_on_all_ranks "$name" 4
    check "$name: serial up to summation order" "$compare" --quiet "$work/rank-0" "$serial" 1e-5
    check "$name: at least a megabyte crossed the link" [ $((after - before)) -gt 1000000 ]
    clean "$name"
}

digits_options=(--data "$data" --batch 96 --steps 60 --seed 5)
text=${data%/*}/shakespeare.txt
chargpt=$build/samples/chargpt
chargpt_options=(--data "$text" --layers 2 --width 64 --heads 4 --context 32 --batch 12 --eval-every 5 --eval-batches 2 --steps 10)

# digits_alone: one process trains, and `ddprun -n 4`. digits_equal NAME DDPRUN...: four ranks train what these trained, several buckets are
# reduced, and every step is compared, which is said once.
digits_alone() {
    works "digits alone" "$digits_plain" "${digits_options[@]}" --save "$work/serial"
    works "ddprun -n 4" "$ddprun" -n 4 -q --check-every 1 --bucket-mb 0.02 "$digits" "${digits_options[@]}" --save "$work/alone-%d"
}
digits_equal() {
    local name=$1
    shift
    equal "$name" "$work/serial" "$@" --check-every 1 --bucket-mb 0.02 "$digits" "${digits_options[@]}" --save "$work/rank-%d"
    check "$name: the bits of ddprun -n 4" cmp "$work/rank-3" "$work/alone-0"
    check "$name: compared after every step, and said once" [ "$(grep -c 'compared 60 times, last after step 60' "$work/stderr")" -eq 1 ]
}

# The process of a rank on a host: it runs the trainer and has the rank's number.
rank_process() { # HOST RANK TRAINER
    local process
    for process in $(hosts_processes "$1"); do
        [ "$(readlink "/proc/$process/exe")" = "$3" ] || continue
        ! grep -qszx "RANK=$2" "/proc/$process/environ" || echo "$process"
    done
}

has_ended() {
    ! kill -0 "$1" 2>/dev/null
}

# begin NAME COMMAND...: starts a job that would never end, as $job, and waits until it trains. finished NAME START: it has ended, and badly.
begin() {
    local name=$1
    shift
    : >"$work/stdout" # not what the last job wrote: the next one opens it only when it starts
    timeout -k 2 "$(patient "$limit")" "$@" "$ladder" --steps 1000000 </dev/null >"$work/stdout" 2>"$work/stderr" &
    job=$!
    check "$name: the job trains first" within 60 grep -q '^step 20 ' "$work/stdout"
}
finished() {
    check "$1: the job ends" within 60 has_ended "$job"
    printf '# %s: after %d ms\n' "$1" $(((${EPOCHREALTIME/./} - $2) / 1000))
    code=0
    wait "$job" || code=$?
    check "$1: exit code $code is not 0, nor that of a time limit" [ "$code" -ne 0 -a "$code" -ne 124 ]
}

# killed NAME RANK COMMAND...: a rank on h2 is killed while it trains: the job ends, with one report that names it and a bad exit code.
killed() {
    local name=$1 rank=$2 victim start
    shift 2
    begin "$name" "$@" "$ddprun"
    victim=$(rank_process h2 "$rank" "$ladder")
    check "$name: it is one process on h2" [ "$(wc -w <<<"$victim")" -eq 1 ]
    start=${EPOCHREALTIME/./}
    kill -KILL "$victim"
    finished "$name" "$start"
    grep '^ddprun: ' "$work/stderr" | grep -v ' overlap is off from step ' >"$work/reports" || true
    check "$name: one report: $(cut -c 1-300 "$work/reports")" [ "$(wc -l <"$work/reports")" -eq 1 ]
    check "$name: with rank, host and process" grep -Eq "rank $rank \(host h2, process $victim," "$work/stderr"
    clean "$name"
}

# How many processes on a host run the trainer.
trainers_on() {
    local process count=0
    for process in $(hosts_processes "$1"); do
        [ "$(readlink "/proc/$process/exe")" != "$ladder" ] || count=$((count + 1))
    done
    echo "$count"
}
no_rank_trains() {
    [ "$(trainers_on h1) $(trainers_on h2)" = '0 0' ]
}

# cut_off NAME COMMAND...: the link between the hosts goes down without a notice: the job ends on both, and h2 is named.
cut_off() {
    local name=$1 start
    shift
    begin "$name" "$@"
    start=${EPOCHREALTIME/./}
    hosts_link h2 down
    finished "$name" "$start"
    check "$name: no rank trains on, on either host" within 60 no_rank_trains
    check "$name: the host is named" grep -q 'h2' "$work/stderr"
    hosts_link h2 up
    # Folders may stay: mpirun kills what has not ended one second after it was asked to.
    check "$name: no process is left" within 60 no_process_left
}

# check_in_two NAME LAUNCHER...: `ddprun check` in two commands, one rank first on host h1 and then four ranks on both, tells a right
# program from one whose learning rate depends on the rank. Rank 0 shows the verdict, and its exit code is the job's.
check_in_two() {
    local name=$1 reference=$work/in-two/reference trainer=$build/tests/tools/check/rows
    shift
    mkdir -p "$work/in-two"
    works "$name, check: one rank writes the reference" "$hosts_runner" h1 "$ddprun" check -q -n 1 --reference "$reference" "$trainer"
    works "$name, check of a right program" "$@" check -q --reference "$reference" "$trainer"
    check "$name, check of a right program: one verdict" [ "$(grep -c '^equal: 4 ranks' "$work/stdout")" -eq 1 ]
    run "$@" check -q --reference "$reference" "$trainer" --mistake rate_by_rank
    check "$name, check of a mistake: exit code" [ "$code" -eq 1 ]
    check "$name, check of a mistake: one verdict" [ "$(grep -c '^different: .*on 3 of 4 ranks, rank 1 first' "$work/stdout")" -eq 1 ]
    check "$name, check: no other file is left" [ "$(ls "$work/in-two")" = reference ]
    clean "$name, check"
}

# carried_link: the hosts get another link, which slow_link.py carries. Then delayed MS1 MS2 [LOST]: what h1 sends takes so long, and
# what h2 sends; of 100 frames so many are lost.
link=
carried_link() {
    local number reason
    for number in 1 2; do
        hosts_net "h$number" link set eth0 name fast0 down
        reason=$(hosts_net "h$number" tuntap add dev eth0 mode tap 2>&1) || skip "no TAP device: $reason"
        hosts_net "h$number" address flush dev fast0
        hosts_net "h$number" address add "10.77.0.$number/24" dev eth0
        hosts_net "h$number" link set eth0 up
    done
}
delayed() {
    local answer fd
    [ -z "$link" ] || kill "$link"
    exec {fd}< <(exec python3 "$(dirname "$0")/slow_link.py" "$(cat "$hosts_work/h1/pid")" eth0 "$1" "$(cat "$hosts_work/h2/pid")" eth0 "$2" "${3:-0}" ${4:+"$4"} 2>&1)
    link=$!
    read -r -t 60 -u "$fd" answer || answer="it does not answer"
    [ "$answer" = ready ] || skip "no slow link: $answer"
    exec {fd}<&-
    hosts_on h1 timeout 60 bash -c ': >/dev/tcp/10.77.0.2/9' 2>/dev/null || true # refused, once packets pass both ways
    note_quiet
}
