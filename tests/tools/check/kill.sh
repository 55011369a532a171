#!/usr/bin/env bash
# kill.sh BUILD [ROUND...] - `ddprun check` that is ended at any moment leaves nothing behind: no process, no folder of its own, and the user's files as they
# were, also those that the trainer writes. Kills come at random moments of its run: SIGINT to it or, as a terminal does it, to its whole process group,
# SIGTERM, and in every third round SIGKILL; the folder of a command that was killed may stay until the next ddprun.
#
# 7 rounds, with DDPRUN_SOAK=1 500. A ROUND is a number that the moment is drawn from.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/lib.sh"
mark=$work
rounds=("${@:2}")
if [ "${#rounds[@]}" -eq 0 ]; then
    mapfile -t rounds < <(if [ "${DDPRUN_SOAK:-0}" = 1 ]; then seq 500; else seq $((part % 3 * 7 + 1)) $((part % 3 * 7 + 7)); fi)
fi
patience=$((patience * 4))
export TMPDIR=$work/tmp
user=$work/user # what the user has
mkdir "$TMPDIR" "$user"

run "$rows" --steps 6 --checkpoint "$user/old" --save "$user/model-%d"
cp "$user/old" "$user/checkpoint"
printf 'to be kept\n' >"$user/notes"
before=$(cd "$user" && sha256sum -- *)
command=("$ddprun" check -n 2 "$rows" --steps 40 --resume "$user/old" --checkpoint "$user/checkpoint" --save "$user/model-%d")

folders() { find "$TMPDIR" -mindepth 1; }
half_written() { find "$work" -name 'reference.*'; }

# until_empty COMMAND: waits until it prints nothing; prints what it printed last.
until_empty() {
    local printed
    prints_nothing() { printed=$("$1") && [ -z "$printed" ]; }
    within "$patience" prints_nothing "$1" || true
    printf '%s' "$printed"
}

# kill_at MICROSECONDS SIGNAL TARGET: starts the command, waits, and sends the signal to it ("one") or to its process group.
kill_at() {
    local pid
    set -m # a process group of its own, with SIGINT as it is by default
    DDPRUN_TEST_MARK=$work "${runtime[@]}" "${command[@]}" </dev/null >"$work/stdout" 2>"$work/stderr" &
    pid=$!
    set +m
    sleep "$(printf '%d.%06d' $(($1 / 1000000)) $(($1 % 1000000)))"
    if [ "$3" = one ]; then kill -s "$2" "$pid" 2>/dev/null; else kill -s "$2" -- "-$pid" 2>/dev/null; fi
    wait "$pid" 2>/dev/null
    code=$?
}

# One round that nothing ends: how long it takes, and that it changes no file.
begin=${EPOCHREALTIME/./}
run "${command[@]}"
length_us=$((${EPOCHREALTIME/./} - begin))
succeeded "rows with files of its own is equal"
check "the user's files are as before" [ "$(cd "$user" && sha256sum -- *)" = "$before" ]
check "no folder is left" [ -z "$(until_empty folders)" ]

for round in "${rounds[@]}"; do
    RANDOM=$round
    moment_us=$(((RANDOM * 32768 + RANDOM) % (length_us * 11 / 10)))
    signals=(INT TERM KILL) targets=(one group)
    signal=${signals[round % 3]} target=one number=$(kill -l "${signals[round % 3]}")
    [ "$signal" != INT ] || target=${targets[RANDOM % 2]}
    kill_at "$moment_us" "$signal" "$target"
    left=$(until_empty marked)
    # What a killed command has left, the next one removes.
    [ "$signal" != KILL ] || "${runtime[@]}" "$ddprun" -q -n 1 "$rows" --steps 1 </dev/null >/dev/null 2>&1
    stays=$(until_empty folders)
    after=$(cd "$user" && sha256sum -- *)
    name="round $round: SIG$signal to $target after $((moment_us / 1000)) ms, exit code $code"
    if [ -n "$left" ]; then
        not_ok "$name" "processes are left: $(tr '\n' ' ' <<<"$left")"
    elif [ -n "$stays" ]; then
        not_ok "$name" "a folder is left: $(head -n 3 <<<"$stays" | tr '\n' ' ')"
        rm -rf "${TMPDIR:?}"/*
    elif [ "$code" -ne 0 ] && [ "$code" -ne $((128 + number)) ]; then # 0: it was done
        not_ok "$name" "neither 0 nor $((128 + number))"
    elif [ "$after" != "$before" ]; then
        not_ok "$name" "files of the user are not as before: $(diff <(echo "$before") <(echo "$after") | tail -n 1)"
        before=$after
    else
        ok "$name"
    fi
done
# In the runs that look for the place there is a verdict already.
SOFTGPU_COPY_US=20000 "${runtime[@]}" "$ddprun" check -n 2 "$rows" --steps 6 --mistake bias_divided </dev/null >"$work/stdout" 2>"$work/stderr" &
within "$patience" grep -q 'recording each operation' "$work/stderr" && kill -TERM $!
wait $!
code=$?
check "SIGTERM while a step is recorded: exit code 143, and no further run" [ "$code$(grep -c "further run: .*recording" "$work/stderr")" = 1431 ]
# A reference is whole, or not there.
command=("$ddprun" check -q -n 1 --reference "$work/reference" "$rows" --steps 40)
for moment_us in 30000 60000 90000 150000 250000; do
    in_turn 3 || continue
    kill_at "$moment_us" KILL one
    check "a reference after $((moment_us / 1000)) ms of a killed check: nothing half-written" [ -z "$(until_empty half_written)" ]
done
# The folder of a check that has its reference is removed, too, without another ddprun: mpirun kills all ranks once rank 0 has judged.
# Both are killed together, the check and the ddprun of its run.
run "$ddprun" check -q -n 1 --reference "$work/whole" "$rows" --steps 6
# The check's own child with the ranks' options: its guardian, too, is called ddprun until it has another name.
the_run() { for child in $(pgrep -P "$!"); do tr '\0' ' ' </proc/"$child"/cmdline | grep -q -- '--ranks=2 .*--output' && echo "$child"; done 2>/dev/null; }
two_run() { both=("$(the_run | head -n 1)" "$!") && [ -n "${both[0]}" ]; }
SOFTGPU_COPY_US=50000 DDPRUN_TEST_MARK=$work "${runtime[@]}" "$ddprun" check -q -n 2 --reference "$work/whole" "$rows" --steps 6 >/dev/null 2>&1 &
check "a check with a reference runs its ranks" within "$patience" two_run
kill -KILL "${both[@]}" 2>/dev/null
wait $! 2>/dev/null
check "a killed check with a reference: no folder is left" [ -z "$(until_empty folders)" ]
printf '# %d rounds in runs of %d ms, %d failures\n' "${#rounds[@]}" $((length_us / 1000)) "$failures"
finish
