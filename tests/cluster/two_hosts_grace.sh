#!/usr/bin/env bash
# two_hosts_grace.sh BUILD - a signal at one of two hosts (--grace): all ranks have the time, more than a minute too; a rank of the other
# host that waits for one that has left is ended at once, one whose time is over is named; hosts that disagree about the time do not begin.
source "$(dirname "$0")/cluster.sh"
export HOME=$work/home
mkdir -m 700 "$HOME"
note_quiet
fake=$build/tests/launcher/launcher_fake_softgpu
started_h1="" started_h2=""

# begin HOST OPTION... : the ddprun of a host, in the background; its id is in started_h1 or started_h2, its output in $work/h1 or h2.
begin() {
    local host=$1
    shift
    (hosts_exec "$host" "${runtime[@]}" "$ddprun" --nnodes 2 --node-rank $((${host#h} - 1)) --master h1:29500 -n 2 --interface eth0 \
        "$@" </dev/null >"$work/$host" 2>&1) &
    declare -g "started_$host=$!"
}
# both GRACE: a job of four ranks that play `words`, until each has made its files in $pids.
both() {
    begin h1 --grace "$1" --summary-json "$work/end.json" "$fake" stage 2 stage 3 step 82 "${words[@]}"
    begin h2 --grace "$1" "$fake" stage 2 stage 3 step 82 "${words[@]}"
    within 60 eval '[ "$(find "$pids" -type f ! -name "*.new" | wc -l)" -ge 8 ]' || not_ok "four ranks run" "$(cat "$work/h1" "$work/h2")"
}
new_words() { words=() pids=$(mktemp -d "$work/pids-XXXXXX"); }
plays() { words+=("@$1" pid "$pids" catch 15 "$pids/c$1" "${@:2}"); } # RANK WORD...: after the signal, which the rank catches
ends_on() { # HOST CODE
    local pid=started_$1 own
    wait "${!pid}"
    own=$?
    [ "$own" -eq "$2" ] || {
        echo "exit code $own: $(cat "$work/$1")"
        return 1
    }
}
is_gone() { [ ! -e "/proc/$1" ] || grep -q '^State:.[ZX]' "/proc/$1/status"; }
lives() { ! is_gone "$1"; }
says() { grep -qE "^ddprun: $1" "$work/h1" || {
    cat "$work/h1" "$work/h2"
    return 1
}; }
killed_is() { python3 -c 'import json, sys; sys.exit([r["killed"] for r in json.load(open(sys.argv[1]))["each_rank"]] != eval(sys.argv[2]))' "$work/end.json" "$1"; }

# Three ranks leave at once, on both hosts; their ddprun stay for the one that saves.
for at in h1 h2; do
    new_words
    for rank in 0 1 2; do plays $rank stage 4 exit 0; done
    plays 3 await "$pids/go" say saved stage 4 exit 0
    both 70
    pid=started_$at
    kill -TERM "${!pid}"
    check "SIGTERM at $at: the others leave" within 30 eval 'is_gone "$(cat "$pids/rank0")" && is_gone "$(cat "$pids/rank1")" && is_gone "$(cat "$pids/rank2")"'
    check "SIGTERM at $at: the rank that saves lives" lives "$(cat "$pids/rank3")"
    check "SIGTERM at $at: both ddprun stay" eval 'lives "$started_h1" && lives "$started_h2"'
    touch "$pids/go"
    check "SIGTERM at $at: h1" ends_on h1 143
    check "SIGTERM at $at: h2" ends_on h2 143
    check "SIGTERM at $at: it has saved" grep -q saved "$work/h1" "$work/h2"
    check "SIGTERM at $at: no other word" eval '! grep -hE "different|killed|lost|damaged" "$work/h1" "$work/h2"'
    clean "SIGTERM at $at"
done

new_words
for rank in 0 2; do plays $rank exit 0; done
plays 1 await "$pids/go" say saved exit 0
plays 3 step 83 wait "DDP_STEP" hang
both 70
kill -TERM "$started_h1"
check "a rank that waits: it is ended" within 30 is_gone "$(cat "$pids/rank3")"
check "a rank that waits: the rank that saves lives" lives "$(cat "$pids/rank1")"
touch "$pids/go"
check "a rank that waits: h1" ends_on h1 143
check "a rank that waits: h2" ends_on h2 143
check "a rank that waits: it is named" says 'ranks stopped at different steps after SIGTERM \(rank 0 after step 82, rank 3 in step 84\): rank 3 \(host h2, process [0-9]+.*DDP_ANY'
check "a rank that waits: the summary" killed_is '[None, None, None, "waiting"]'
clean "a rank that waits"

new_words
for rank in 0 1 3; do plays $rank exit 0; done
plays 2 hang
both 1
kill -TERM "$started_h2"
check "a rank that is late: h1" ends_on h1 143
check "a rank that is late: h2" ends_on h2 143
check "a rank that is late: it is named" says 'rank 2 \(host h2, process [0-9]+.*\) was killed 1 s after SIGTERM, after step 82: '
check "a rank that is late: the summary" killed_is '[None, None, "grace", None]'
clean "a rank that is late"

# SIGUSR1 at h2 alone: the ranks of h1 train on, and their ddprun, which judges, has seen no signal.
new_words
for rank in 0 1; do words+=("@$rank" pid "$pids" await "$pids/go" step 83 wait "DDP_STEP" hang); done
for rank in 2 3; do words+=("@$rank" pid "$pids" catch 10 "$pids/c$rank" exit 0); done
for host in h1 h2; do begin "$host" "$fake" stage 2 stage 3 step 82 "${words[@]}"; done
within 60 eval '[ "$(find "$pids" -type f ! -name "*.new" | wc -l)" -ge 6 ]' || not_ok "SIGUSR1 at h2: four ranks run" "$(cat "$work/h1" "$work/h2")"
kill -USR1 "$started_h2"
check "SIGUSR1 at h2: its ranks leave" within 30 eval 'is_gone "$(cat "$pids/rank2")" && is_gone "$(cat "$pids/rank3")"'
touch "$pids/go"
check "SIGUSR1 at h2: h1" ends_on h1 1
check "SIGUSR1 at h2: h2" ends_on h2 1
check "SIGUSR1 at h2: the line has the recipe" says 'ranks stopped at different steps after SIGUSR1 \(rank 2 after step 82, rank 0 in step 84.*DDP_ANY'
check "SIGUSR1 at h2: no mistake is named" eval '! grep -h "same number of steps" "$work/h1" "$work/h2"'
clean "SIGUSR1 at h2"

begin h1 --grace 70 "$fake"
begin h2 --grace 60 "$fake"
check "hosts that disagree: h1" ends_on h1 2
check "hosts that disagree: h2" ends_on h2 2
check "hosts that disagree: the line" says '.*asked for different things: --grace 70 and --grace 60'
clean "hosts that disagree"
finish
