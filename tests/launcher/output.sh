#!/bin/bash
# output.sh BUILD - where output, input and summaries go, also when output is not read or a disk is full.
#
# The real ddprun, with helper programs for trainers and stubs for the libraries that it preloads. Exits 1 if a case is not ok. Needs no GPU.
source "$(dirname "$0")/lib.sh"

# ---- where output goes, and the summary ----
run -q -n 3 --output "files=$top/files" "$fake" say out complain err
why=$(expect 0)
[ ! -s "$out" ] && [ ! -s "$err" ] || why+="something came through "
for rank in 0 1 2; do
    [ "$(cat "$top/files/rank-$rank.out")" = out ] && [ "$(cat "$top/files/rank-$rank.err")" = err ] || why+="rank $rank's files are wrong "
done
report "--output files" "$why"
run -q -n 3 --output "files=$top/tee" --tee "$fake" say $'out\n' complain $'err\n'
why=$(expect 0 "$err" '^\[1\] err$' "$err" '^\[2\] err$' "$out" '^out$' "$out" '^\[1\] out$' "$out" '^\[2\] out$')
for rank in 0 1 2; do
    [ "$(cat "$top/tee/rank-$rank.out")" = out ] && [ "$(cat "$top/tee/rank-$rank.err")" = err ] || why+="rank $rank's files are wrong "
done
report "--tee: files, and all lines" "$why"
# Times of day are not known here, their form is; rank 0 has its number, too.
stamp='[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z'
gives "--timestamps" 0 "$out" "^$stamp \[0\] one\$" "$out" "^$stamp \[0\] two\$" "$out" "^$stamp \[1\] two\$" "$err" "^$stamp \[0\] err\$" -- \
    run -n 2 --timestamps "$fake" say $'one\ntwo\n' complain err
gives "--timestamps, one rank" 0 "$out" "^$stamp \[0\] one\$" -- run -n 1 --timestamps "$fake" say one
run -q -n 1 --timestamps --output "files=$top/stamped" --tee "$fake" say one
report "files have lines as they were" "$(expect 0 "$out" "^$stamp \[0\] one\$")$(grep -vx one "$top/stamped/rank-0.out")"
bad "--timestamps of lines that go elsewhere" 2 '--timestamps is for lines that ddprun passes on' --timestamps --output none "$fake"
# A reader that leaves: one line, whatever the ranks still had to say.
run_in_front sh -c 'timeout -k 1 "$limit" "$0" -n 2 "$1" stage 3 step 5 flood 1000000 hang | head -n 1' "$ddprun" "$fake"
why=$(expect 0 "$out" '^(\[1\] )?line 0000000000' "$err" '^ddprun: rank [01] was ended by SIGPIPE .* after step 5; the reader of its output, or of a connection, has left( \(first of 2 failed ranks\))?$')
report "| head is quiet" "$why$([ "$(wc -l <"$err")" = 1 ] || head -n 20 "$err")"
run -n 3 --output rank0 "$fake" say out complain err
why=$(expect 0 "$err" '^err')
[ "$(cat "$out")" = out ] && ! grep -q '\[[12]\]' "$err" || why+="stdout: $(cat "$out") "
report "--output rank0" "$why"
# The rank that fails is heard all the same: of two that end in one way, the one that the message names.
for end in "exit 7" "kill 6"; do
    run -n 3 --output rank0 "$fake" say out @2 complain $'first\nit is \e[1mfull\n' $end @0 complain $'other\n' hang @1 complain $'other\n' hang
    code=7 reason="ended with exit code 7"
    [ "$end" = "exit 7" ] || code=134 reason="was ended by SIGABRT"
    why=$(expect "$code" "$err" "^ddprun: rank 2 $reason.*; its last line: \"it is .\[1mfull\"" "$err" '^\[2\] first$')
    ! grep -q '\[1\]' "$err" || why+="rank 1 is heard "
    report "--output rank0, and a rank that ends: $end" "$why"
done
run -n 2 "$fake" @1 complain "the cause" exit 3 @0 hang
report "the last line is part of the reason" "$(expect 3 "$err" '^\[1\] the cause$' "$err" '^ddprun: rank 1 ended with exit code 3.*; its last line: "the cause"$')"
run_in_front timeout -k 1 "$limit" bash -c '"$@" 2>&1' - "$ddprun" -n 2 "$fake" @0 say $'out\n' complain $'the cause\n' exit 3 @1 hang
report "also where stdout and stderr are one" "$(expect 3 "$out" '^ddprun: rank 0 ended with exit code 3.*; its last line: "the cause"$')"
gives "ddprun does not read what one rank writes" 3 "$err" 'exit code 3.*; its last output may say why$' -- run -n 1 "$fake" complain "the cause" exit 3
run -q -n 3 --output none "$fake" say out complain err
report "--output none" "$(expect 0)$(cat "$out" "$err")"
touch "$top/text"
bad "--output into a file" 2 "is not a writable folder" --output "files=$top/text" "$fake"
run -n 2 --summary-json "$top/end.json" "$fake" exit 0
why=$(expect 0)
grep -q '"exit_code":0' <(tr -d ' \n' <"$top/end.json") || why+="$(cat "$top/end.json") "
run -n 2 --summary-json "$top/end.json" "$fake" @1 exit 7
why+=$(expect 7)
grep -q '"exit_code":7.*"reason":"rank1endedwithexitcode7' <(tr -d ' \n' <"$top/end.json") || why+="$(cat "$top/end.json") "
report "--summary-json" "$why$(find "$top" -name 'end.json.*')"
# What an earlier job left is not taken for the end of one that was never started.
run --summary-json "$top/end.json" "$fake" exit 0
run --dry-run --summary-json "$top/end.json" "$top/nowhere"
why=$(cmp <(echo 0) <(tr -d ' ,' <"$top/end.json" | sed -n 's/^"exit_code"://p' | head -1))
for refused in "127:cannot start:$top/nowhere" "2:cannot read:--nccl $top/nowhere $fake" "2:3 ranks want:-n 3 $fake"; do
    IFS=: read -r code text arguments <<<"$refused"
    SOFTGPU_DEVICES=2 run --summary-json "$top/end.json" $arguments
    why+=$(expect "$code" "$top/end.json" "^ *\"exit_code\": *$code,$" "$top/end.json" "\"reason\": *\".*$text" "$top/end.json" '"ranks": *0,')
done
report "--summary-json of a job that is refused" "$why$(find "$top" -name 'end.json.*')"
bad "--summary-json to nowhere" 2 "cannot write to" --summary-json "$top/nowhere/end.json" "$fake"

# ---- input and output ----
run_in_front sh -c 'printf "some\ninput" | timeout -k 1 "$limit" "$0" -n 2 "$1" cat' "$ddprun" "$fake"
report "stdin goes to rank 0 alone" "$(expect 0 "$out" '^<some' "$out" '^input>' "$out" '^\[1\] <>')"
empty='^ddprun: a rank above 0 has read its stdin, which is empty: only rank 0 gets that of ddprun; '
report "that a rank above 0 reads is said once" "$(expect 0 "$err" "$empty")$(grep -c "$empty" "$err" | grep -vx 1)"
run_in_front sh -c 'printf input | timeout -k 1 "$limit" "$0" -n 2 "$1" @0 cat' "$ddprun" "$fake"
report "not where rank 0 reads alone" "$(expect 0 "$out" '^<input>')$(grep "$empty" "$err")"
run -n 2 "$fake" cat
report "nor where ddprun has no input either" "$(expect 0 "$out" '^<>' "$out" '^\[1\] <>')$(grep "$empty" "$err")"
gives "an unfinished line is passed on" 0 "$out" '^\[1\] no newline$' "$err" '^\[1\] oops$' -- run -n 2 "$fake" @1 say "no newline" complain "oops"
run -n 3 "$fake" flood 200000
why=$(expect 0)
for rank in '' '\[1\] ' '\[2\] '; do
    [ "$(grep -acE "^${rank}line [0-9]{10} of a rank that has a great deal to say\$" "$out")" = 200000 ] || why+="lines of '$rank' are missing "
done
report "a flood of lines comes through whole" "$why"
run_in_front sh -c 'timeout -k 1 "$limit" "$0" -q -n 2 "$1" flood 2000 complain "middle
" flood 2000 complain "end
" 2>&1' "$ddprun" "$fake"
for word in middle end; do
    seq -f 'line %010.0f of a rank that has a great deal to say' 0 1999
    echo $word
done >"$top/wanted"
report "with 2>&1 rank 0 keeps the order of its two streams" "$(expect 0)$(grep -av '^\[1\] ' "$out" | cmp "$top/wanted" - 2>&1)"
run -n 2 "$fake" @1 longline 300000
sed -n 's/^\[1\] \(.*\)/\1/p; s/^\[1\]+\(.*\)/\1/p' "$out" | tr -d '\n' >"$top/joined"
python3 -c "import sys; sys.stdout.buffer.write(bytes(0 if i % 251 == 10 else i % 251 for i in range(300000)))" >"$top/wanted"
report "a long line of any bytes comes in pieces" "$(expect 0)$(cmp "$top/joined" "$top/wanted" 2>&1)"
run_in_front sh -c 'timeout -k 1 "$limit" "$0" -n 2 "$1" say "hello
" <&- >&- 2>&-' "$ddprun" "$fake"
report "closed descriptors" "$(expect 0)"
if command -v script >/dev/null; then
    run_in_front env TERM=xterm timeout -k 1 "$limit" script -qec "'$ddprun' --device softgpu -n 2 sh -c 'test -t 1 && echo yes; echo line'" /dev/null
    report "a terminal stays one for rank 0, prefixes get colour" \
        "$(expect 0 "$out" '^yes' "$out" $'^\033\\[33m\\[1\\]\033\\[0m line')$(grep -c yes "$out" | grep -vx 1)"
    run_in_front env NO_COLOR=1 TERM=xterm timeout -k 1 "$limit" script -qec "'$ddprun' --device softgpu -n 2 sh -c 'echo line'" /dev/null
    report "NO_COLOR" "$(expect 0 "$out" '^\[1\] line')"
    run_in_front sh -c 'printf "typed\n" | timeout -k 1 "$limit" script -qec "\"$0\" -n 2 --device softgpu sh -c \"read word; echo got-\\\$word\"" /dev/null' "$ddprun"
    report "what is typed goes to rank 0" "$(expect 0 "$out" '^got-typed')"
else
    echo "skip - a terminal stays one for rank 0 (no script(1))"
fi
new_pids
mkfifo "$pids/../fifo"
exec 7<>"$top/fifo"
env "$ddprun" -n 3 "$fake" pid "$pids" @1 flood 100000000 @0 await "$pids/go" exit 3 @2 hang >"$top/fifo" 2>"$top/err" </dev/null &
job=$!
started+=("$job")
within 20 files_in "$pids" 3 || not_ok "ranks started" "no pids"
touch "$pids/go.tmp" && mv "$pids/go.tmp" "$pids/go"
rm "$pids/go.tmp" 2>/dev/null
within 10 sh -c '! kill -0 "$(cat "$0/rank2")" 2>/dev/null || grep -q "State:.Z" "/proc/$(cat "$0/rank2")/status"' "$pids" || why=late
report "a reader that does not read delays no rank's end" \
    "$(within 10 grep -q 'rank 0 ended with exit code 3' "$top/err" || cat "$top/err")"
cat <&7 >/dev/null 2>&1 &
started+=($!)
end_job
kill "${started[-1]}"
exec 7<&-
err=$top/err report "and its job ends with the failure's code" "$(expect 3)"

# ---- output that is not read ----
# The first of these jobs continues while others are tried, for longer than its --hang-timeout.
full unread
begin=$SECONDS
mkdir "$top/unread-tmp"
env TMPDIR="$top/unread-tmp" "$ddprun" -n 2 --hang-timeout 2 "$fake" stage 3 @0 wait "the end of step 1" hang @1 flood 100000000 \
    >"$top/unread" 2>"$top/unread-err" </dev/null &
unread_job=$!
started+=("$unread_job")
full unread-both
new_pids
env "$ddprun" -n 2 --hang-timeout 10 "$fake" pid "$pids" complain "last words" @0 await "$pids/rank1" exit 3 @1 hang >"$top/unread-both" 2>&1 </dev/null &
job=$!
started+=("$job")
why=$(within 20 files_in "$pids" 2 && within 20 all_gone "$pids" || echo "ranks are left ")
is_alive "$job" || why+="its reader was not waited for "
kill -TERM "$job"
end_job
report "stderr is not read: a failure ends the ranks, and one signal ends ddprun" "$(expect 3)$why"
# A full disk. What is printed is longer than what stdio keeps, and shorter.
for words in --help --help-all --version "-n 1 --dry-run $fake" doctor; do
    run_in_front sh -c 'exec timeout -k 1 "$limit" "$@" >/dev/full' sh "$ddprun" $words
    why=$(expect 1 "$err" '^ddprun: cannot write to stdout: No space left on device; make room')
    [ "$(wc -l <"$err")" = 1 ] || why+="$(wc -l <"$err") lines on stderr "
    report "a full disk, ${words/ */...}" "$why"
done
err=$top/unread-err
why=$(within 20 grep -q '^ddprun: stdout has not been read for' "$err" || echo "nothing is said ")
while [ $((SECONDS - begin)) -lt 5 ]; do sleep 0.1; done # nothing is to happen
is_alive "$unread_job" || why+="the job has ended "
report "stdout is not read: a rank that prints does not hang" "$why$(grep 'no CUDA call' "$err")"
kill -TERM "$unread_job"
job=$unread_job err=$top/unread-err
end_job
report "stdout is not read: a signal ends the job all the same" \
    "$(expect 143 "$err" '^ddprun: the last output of the ranks was not read, and is lost')$(ls -A "$top/unread-tmp")"

report "no folder is left" "$(no_folders_left)"
finish
