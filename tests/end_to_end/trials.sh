#!/usr/bin/env bash
# trials.sh BUILD - what overlap costs a step's own work is found, as the trial's control steps have it; where steps are shorter without
# overlap it is switched off, at one step on all ranks, and on again where the step changes, and stays on elsewhere; buckets are the same
# with and without overlap, and results the same bits either way; and runs that repeat call by call, are compared, captured or do not
# overlap have no trial. Trials of other buckets: layouts.sh. Ordinarily a part of these (in_turn).
source "$(dirname "$0")/lib.sh"
paced=$build/tests/trainers/paced
trace=$work/trace
shape=(--layers 12 --kib 64 --layer-us 15000 --forward-us 1000)
link=latency_us=2000,gbytes_per_s=0.008,slows=1.2
quick=(--layers 12 --kib 64 --layer-us 5000 --forward-us 0)
loses=latency_us=1000,gbytes_per_s=0.05,slows=6,busy_factor=4

# field FILE LINE NAME: the value of NAME in the first line that has LINE.
field() { grep -m 1 "$2" "$1" | grep -o "\"$3\":[^,}]*" | head -n 1 | cut -d: -f2; }
# differs: how much longer the slowest rank's own work takes in the steps beside the control steps of the first trial, in ms, in the
# median. Of each pair of steps the control step is the second one, and in the later half the first.
differs() {
    python3 - "$trace" <<'END'
import json, statistics, sys
ranks = [{s["step"]: s for s in map(json.loads, open("%s/rank-%d.jsonl" % (sys.argv[1], r))) if s.get("interval_us")} for r in (0, 1)]
apart = sorted(n for n, s in ranks[0].items() if s.get("control") and not s["overlapped"])[:8]
own_us = lambda step: max(-steps[step]["interval_us"] for steps in ranks)
print(statistics.median(own_us(n + (1 if i >= 4 else -1)) - own_us(n) for i, n in enumerate(apart)) / 1e3)
END
}
# within SHARE VALUE WANTED
within() { awk -v share="$1" -v value="${2:-0}" -v wanted="${3:-0}" 'BEGIN { exit !(value >= wanted * (1 - share) && value <= wanted * (1 + share)) }'; }
# apart: the control steps without overlap among these lines of a trace; those of layouts.sh have it.
apart() { grep '"control":true' | grep '"overlapped":false'; }
# tries NAME COUNT [-ge]: each rank's trace has so many control steps without overlap, or more.
tries() {
    local rank
    for rank in 0 1; do
        check "$1: rank $rank has $2 control steps" [ "$(apart <"$trace/rank-$rank.jsonl" | wc -l)" "${3:--eq}" "$2" ]
    done
}

# buckets NAME: what control steps have sent is what the steps before and after them have.
buckets() {
    local rank same=1
    for rank in 0 1; do
        sed -n 's/^{"step":\([0-9]*\),/\1 /p' "$trace/rank-$rank.jsonl" | awk '
            /"overlapped":true.*"control":true/ { next }
            { control = /"control":true/; sent = ""
              while (match($0, /"(bytes|type)":[^,}]*/)) {
                  sent = sent substr($0, RSTART, RLENGTH); $0 = substr($0, RSTART + RLENGTH) } }
            control && last != "" && sent != last { exit wrong = 1 }
            last_control && sent != last { exit wrong = 1 }
            { last = sent; last_control = control; controls += control }
            END { exit wrong || controls == 0 }' || same=0
    done
    check "$1: control steps have the same buckets as the steps around them" [ "$same" -eq 1 ]
}

# sent_early FROM TO: in so many of these steps, as $rank says, a bucket was launched before the boundary.
sent_early() {
    sed -n 's/^{"step":\([0-9]*\),.*"early":true.*/\1/p' "$trace/rank-$rank.jsonl" | awk -v from="$1" -v to="$2" '$1 >= from && $1 <= to' | wc -l
}

if in_turn 3; then
    # By 20 % while the link is in use, by modelled time. Again if the machine was busy with something else: then a trial says 0.
    for ((try = 1; try <= 3; try++)); do
        rm -rf "$trace"
        SOFTGPU_LINK=$link run "$ddprun" -n 2 --trace "$trace" --summary-json "$work/end.json" "$paced" "${shape[@]}" --steps 72
        slowed=$(sed -n 's/^ *"slowed_ms": *\([0-9.]*\),*$/\1/p' "$work/end.json")
        [ "$code" -eq 0 ] && within 0 "${slowed:-0}" 0 || break
    done
    succeeded "slowed by a fifth: all means are right"
    planted=$(differs)
    check "slowed by a fifth: ${slowed:-no} ms are those of the trial's own control steps ($planted ms)" within 0.01 "$slowed" "$planted"
    tries "slowed by a fifth" 8
    buckets "slowed by a fifth"
    check "slowed by a fifth: control steps send nothing before their boundary" bash -c "! grep -h '\"overlapped\":false.*\"control\":true' '$trace'/rank-*.jsonl | grep -q '\"early\":true'"
    check "slowed by a fifth: the closing line says what averaging costs" grep -Eq \
        "^ddprun: exposed communication: [0-9.]+ ms per step .*; kernels slowed by all-reduces: [0-9.]+ ms per step" "$work/stderr"
    check "slowed by a fifth: overlap stays on, for it gains" bash -c "! grep -q 'overlap is off' '$work/stderr'"
    check "slowed by a fifth: all ranks have the same result" \
        [ "$(field "$trace/rank-0.jsonl" '"trial":' slowed_us)" = "$(field "$trace/rank-1.jsonl" '"trial":' slowed_us)" ]
fi

# Beside backward a collective takes four times as long and slows it to a sixth: more than it saves. Again if others were busy.
for ((try = 1; try <= 3; try++)); do
    rm -rf "$trace"
    SOFTGPU_LINK=$loses run "$ddprun" -n 2 --trace "$trace" --summary-json "$work/end.json" "$paced" "${quick[@]}" --steps 110
    [ "$code" -eq 0 ] && ! grep -q '^ddprun: steps are shorter without overlap here ' "$work/stderr" || break
done
succeeded "overlap does not pay: all means are right"
tries "overlap does not pay" 24
buckets "overlap does not pay"
check "overlap does not pay: it is switched off, with one line" [ "$(grep -c '^ddprun: steps are shorter without overlap here .*: overlap is off from step [0-9]* on; ' "$work/stderr")" -eq 1 ]
step=$(field "$trace/rank-0.jsonl" '"overlap":false' after_step)
check "overlap does not pay: at one step (${step:-none}) on all ranks" \
    [ "${step:-0}" = "$(field "$trace/rank-1.jsonl" '"overlap":false' after_step)" ]
for rank in 0 1; do
    check "rank $rank: from there on nothing is sent before the boundary" [ "$(sent_early $((step + 1)) 999)" = 0 ]
    check "rank $rank: until then it is" [ "$(sent_early $((step - 4)) "$step")" = 5 ]
done
check "overlap does not pay: the closing line says since which step it is off" grep -Eq '^ddprun: exposed communication: [0-9.]+ ms per step .*; overlap is off from step' "$work/stderr"
check "overlap does not pay: so does the summary" grep -q "\"overlap_off_step\": $step\$\|\"overlap_off_step\": $step," "$work/end.json"

# The timeline and the page show what the trace says.
run "$ddprun" trace "$trace" -o "$work/timeline.json"
! command -v python3 >/dev/null ||
    check "overlap does not pay: the timeline is what the trace says" python3 "$(dirname "$0")/timeline.py" "$trace" "$work/timeline.json"
check "overlap does not pay: ... with control steps" [ "$(grep -c '"overlapped":false,"control":true' "$work/timeline.json")" -eq 48 ]
run "$ddprun" report "$trace" -o "$work/page.html"
check "overlap does not pay: the page marks 24 control steps, and where overlap went off" python3 - "$(dirname "$0")" "$work/page.html" $((step + 1)) <<'END'
import sys
sys.path.insert(0, sys.argv[1])
from report import report_of, rows
report = report_of(open(sys.argv[2], encoding="utf-8").read())
marks = {row["Step"]: row["Mark"] for row in rows(report, "step-times", "Duration of each step")}
assert list(marks.values()).count("a trial: other buckets, or no overlap, to see what is quicker") == 24, marks
assert marks[int(sys.argv[3])] == "overlap is off from this step on", marks
assert len(rows(report, "buckets", "Trials of overlap")) == 2, report
END
check "overlap does not pay: ... and says it" grep -q '>overlap is off from this step on<' "$work/page.html"
check "overlap does not pay: ... also beside the settings" grep -q 'Overlap is off from step [0-9]* on, because' "$work/page.html"

if in_turn 3; then
    # Until layers take their time on the host: then nothing runs beside collectives, and overlap saves what they take. The trial that finds
    # that comes 1,600 steps after the last one. Again if the machine was busy with something else.
    changes=(--layers 12 --kib 64 --layer-us 1000 --forward-us 0 --steps 2000)
    for ((try = 1; try <= 3; try++)); do
        rm -rf "$trace"
        SOFTGPU_LINK=latency_us=300,gbytes_per_s=0.2,slows=4,busy_factor=3 run "$ddprun" -n 2 --trace "$trace" \
            --summary-json "$work/end.json" "$paced" "${changes[@]}" --host-from 150
        on=$(field "$trace/rank-0.jsonl" '"overlap":true,"group"' after_step)
        [ "$code" -eq 0 ] && [ -z "$on" ] || break
    done
    succeeded "overlap pays again: all means are right"
    off=$(field "$trace/rank-0.jsonl" '"overlap":false' after_step)
    check "overlap pays again: it is off (${off:-never}), and later on (${on:-never}), with one line each" bash -c \
        "[ $(grep -c '^ddprun: steps are shorter without overlap here .*: overlap is off from step [0-9]* on; ' "$work/stderr") = 1 ] &&
         [ $(grep -c "^ddprun: overlap is on again from step $((on + 1)) on: " "$work/stderr") = 1 ] && [ ${off:-0} -lt 150 ] && [ ${on:-0} -gt 1600 ]"
    check "overlap pays again: at the same steps on all ranks" bash -c \
        "[ ${off:-0} = '$(field "$trace/rank-1.jsonl" '"overlap":false' after_step)' ] &&
         [ ${on:-0} = '$(field "$trace/rank-1.jsonl" '"overlap":true,"group"' after_step)' ]"
    for rank in 0 1; do
        check "rank $rank: in between nothing is sent before the boundary" [ "$(sent_early $((off + 1)) 999)" = 0 ]
        check "rank $rank: from there on each step does, of which the trace has every tenth" [ "$(sent_early $((on + 1)) $((on + 60)))" = 6 ]
    done
    check "overlap pays again: the summary has it on" grep -q '"overlap_off_step": null' "$work/end.json"
    parameters() { sed -n 's/^ddprun: .*bitwise identical on all ranks (hash \([0-9a-f]*\),.*/\1/p' "$work/stderr"; }
    switched=$(parameters)
    run "$ddprun" -n 2 --no-overlap "$paced" "${changes[@]}" --layer-us 0
    check "overlap pays again: the same bits as without overlap (${switched:-none})" [ "${switched:-none}" = "$(parameters)" ]
fi

if in_turn 3; then
    # The same bits as without trials. (The stand-in adds in the order of ranks whatever buckets are: that those are the same is seen above.)
    rm -rf "$trace"
    real=(--layers 6 --width 64 --batch 24 --steps 100)
    works "with a trial: ends well" "$ddprun" -n 3 --trace "$trace" "$ladder" "${real[@]}" --save "$work/rank-%d"
    tries "with a trial" 8 -ge
    same_on_all_ranks "with a trial" 3
    mv "$work/rank-0" "$work/tried"
    run "$ddprun" -n 3 --no-overlap "$ladder" "${real[@]}" --save "$work/rank-%d"
    check "with a trial: the same bits as without overlap" cmp "$work/tried" "$work/rank-0"
    run "$ladder" "${real[@]}" --save "$work/alone"
    check "with a trial: serial up to summation order" "$compare" --quiet "$work/tried" "$work/alone" "$close"
fi

# No trial, where there is one without these options.
export SOFTGPU_LINK=latency_us=500,gbytes_per_s=0.1
quick+=(--layer-us 1500 --steps 72)
for option in '--bucket-mb 0.02' --verify --no-overlap -q; do
    in_turn 3 || continue
    rm -rf "$trace"
    works "$option: ends well" "$ddprun" -n 2 $option --trace "$trace" "$paced" "${quick[@]}"
    # shellcheck disable=SC2046 # of a doubtful trial there may be another one
    tries "$option" $([ "$option" = -q ] && echo 8 -ge || echo 0)
done
if in_turn 3; then # without check overlap is off from step 105
    SOFTGPU_LINK=$SOFTGPU_LINK,slows=6,busy_factor=4 run "$ddprun" check -n 2 --steps 110 "$paced" "${quick[@]}" --steps 110
    check "check: no trial" bash -c "grep -q '^different' '$work/stdout' && ! grep -q 'overlap is off' '$work/stderr'"
fi
rm -rf "$trace"
works "captured steps: ends well" "$ddprun" -n 2 --trace "$trace" "$build/tests/trainers/graphs" mixed 60
tries "captured steps" 0
run "$ddprun" -n 1 "$paced" "${quick[@]}"
check "one rank: no trial" bash -c "[ $code -eq 0 ] && ! grep -q 'kernels run\|overlap is off' '$work/stderr'"
finish
