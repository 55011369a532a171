#!/usr/bin/env bash
# trace.sh BUILD - what --trace writes, and the timeline that `ddprun trace` makes of it (timeline.py holds the one to the other): with
# overlap, groups and graphs; and of files that are cut, missing or not a trace at all.
source "$(dirname "$0")/lib.sh"
export SOFTGPU_LINK=latency_us=300,gbytes_per_s=1
held_to=$(dirname "$0")/timeline.py
shape=(--layers 6 --width 64 --batch 64)
trace=$work/trace
command -v python3 >/dev/null || skip "there is no python3 here, which looks at timelines"

# timeline NAME: made of $trace, and the same as it says. What `ddprun trace` prints goes to $work/said.
timeline() {
    run "$ddprun" trace "$trace" -o "$work/timeline.json"
    cp "$work/stderr" "$work/said"
    succeeded "$1: a timeline is made"
    check "$1: the timeline is what the trace says" python3 "$held_to" "$trace" "$work/timeline.json"
}

# aligned NAME: within a millisecond, on one host.
aligned() {
    local within
    within=$(sed -n 's/.*clocks are aligned within \([0-9.]*\) ms.*/\1/p' "$work/said")
    check "$1: clocks are aligned within ${within:-?} ms" awk -v within="${within:-9}" 'BEGIN { exit !(within < 1) }'
}

for ranks in 2 4; do
    rm -rf "$trace"
    works "$ranks ranks: ends well" "$ddprun" -n "$ranks" --bucket-mb 0.02 --trace "$trace" "$ladder" "${shape[@]}" --steps 30
    timeline "$ranks ranks"
    aligned "$ranks ranks"
    check "$ranks ranks: nothing is missing" bash -c "[ \$(wc -l <'$work/said') -eq 1 ]"
done
check "-o - prints it" bash -c "'$ddprun' trace '$trace' -o - 2>'$work/said' | cmp - '$work/timeline.json'"
fails "a name that ends in .gz" 2 'trace does not compress .*timeline.json.gz; write -o - \| gzip >' "$ddprun" trace "$trace" -o "$work/timeline.json.gz"
check "only the user may read a trace" [ "$(stat -c %a "$trace"/rank-*.jsonl "$work/timeline.json" | sort -u)" = 600 ]
check "backward stands in steps that overlap" grep -q '"name":"backward"' "$work/timeline.json"
rm -rf "$trace"
works "two groups: ends well" "$ddprun" -n 2 --bucket-mb 0.005 --trace "$trace" "$build/tests/matrix/gan_shared" --steps 24 --rhythm joint --streams 3
timeline "two groups"
rm -rf "$trace"
works "graphs: ends well" "$ddprun" -n 2 --bucket-mb 0.01 --trace "$trace" "$build/tests/trainers/graphs" late
works "graphs: a timeline is made" "$ddprun" trace "$trace" -o "$work/timeline.json"
check "graphs: a captured step is one block, named so" grep -q '"step in a CUDA graph, as launched"' "$work/timeline.json"

# A folder that is used again: what a trace has written there before is replaced, all else stays.
rm -rf "$trace"
works "many steps: ends well" "$ddprun" -n 2 --trace "$trace" "$ladder" --layers 2 --width 16 --batch 16 --steps 1010
check "of a thousand steps all, then every tenth" [ "$(grep -c '^{"step":' "$trace/rank-1.jsonl")" -eq 1001 ]
printf 'mine\n' >"$trace/rank-7.txt"
run "$ddprun" -n 2 --trace "$trace" "$ladder" "${shape[@]}" --steps 12
check "used again: only the last job's steps" [ "$(grep -c '^{"step":' "$trace/rank-1.jsonl")" -eq 12 ]
check "used again: another file stays" [ "$(cat "$trace/rank-7.txt")" = mine ]
printf 'mine\n' >"$trace/rank-1.jsonl"
run "$ddprun" -n 2 --trace "$trace" "$ladder" "${shape[@]}" --steps 3
check "a file that is not a trace ends the job" [ "$code" -eq 1 ]
check "... by name" grep -q 'rank-1.jsonl exists, but is not a trace: give --trace another folder' "$work/stderr"
check "... and stays" [ "$(cat "$trace/rank-1.jsonl")" = mine ]
ln -sf "$work/elsewhere" "$trace/rank-1.jsonl"
run "$ddprun" -n 2 --trace "$trace" "$ladder" "${shape[@]}" --steps 3
check "a link ends the job" [ "$code" -eq 1 ]
check "... and is not followed" [ ! -e "$work/elsewhere" ]

# What is whole is shown, the rest is named.
rm -rf "$trace"
run "$ddprun" -n 4 --bucket-mb 0.02 --trace "$trace" "$ladder" "${shape[@]}" --steps 20
{ head -n 20 "$trace/rank-2.jsonl" && printf '{"step":'; } >"$work/half"
mv "$work/half" "$trace/rank-2.jsonl"
rm "$trace/rank-3.jsonl"
works "a file is cut and another missing: a timeline is made" "$ddprun" trace "$trace" -o "$work/timeline.json"
check "... the cut one is named" grep -Eq 'rank-2.jsonl: line [0-9]+ is cut or is not JSON; only the lines before it are shown' "$work/stderr"
check "... and the missing one" grep -q '1 of 4 ranks have no trace of this job in the folder; the first is rank 3' "$work/stderr"
sed -i '1s/"ddprun_trace":1/"ddprun_trace":9/' "$trace"/rank-*.jsonl
run "$ddprun" trace "$trace" -o "$work/timeline-9.json"
check "another version: refused" [ "$code" -eq 1 -a ! -e "$work/timeline-9.json" ]
check "... by number" grep -q 'has version 9, and this ddprun reads version 1' "$work/stderr"

# refused NAME CODE MESSAGE WORDS...
refused() { fails "$1" "$2" "$3" "$ddprun" "${@:4}"; }
refused "no folder" 2 'no folder given, after trace' trace
refused "no file" 2 'no output file for the timeline' trace "$trace"
refused "two folders" 2 'trace takes one folder' trace a b -o c
refused "an unknown option" 2 'unknown option --what of trace' trace --what
refused "a folder that is not there" 2 'cannot read the trace in' trace "$work/none" -o "$work/t"
mkdir "$work/empty"
refused "an empty folder" 1 'no trace in' trace "$work/empty" -o "$work/t"
refused "a file in no folder" 2 'cannot write to' trace "$trace" -o "$work/none/t"
run "$ddprun" -n 2 --device softgpu -q --trace "$work/bare" true
refused "no step" 1 'no trace in|has no steps' trace "$work/bare" -o "$work/t"
works "--help" "$ddprun" trace --help
finish
