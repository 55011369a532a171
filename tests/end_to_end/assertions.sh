#!/usr/bin/env bash
# assertions.sh BUILD [MUTANT...] - an engine in which an invariant is broken (tests/lib/mutants.txt) ends the job at once, by an ASSERT: one
# line with rank, file, line and condition, exit code 1, and nothing is left. Each job ends well without the defect. Then: any thread may
# fail, whatever it holds; one rank alone; a job that restarts; `ddprun check`; and ddprun itself.
source "$(dirname "$0")/lib.sh"
limit=120
watch_leftovers
work_copy=$work/copy # what a user has, but for ddprun itself and the engine, which do what DDPRUN_MUTANT says
mkdir -p "$work_copy/bin" "$work_copy/lib"
cp "$build/tests/mutants/ddprun" "$work_copy/bin/"
ln -s "$build"/lib/libddprun{,-files,-scout}.so "$build/lib/softgpu" "$work_copy/lib/"
ln -s "$build"/tests/mutants/libddprun-{engine,check}.so "$work_copy/lib/"
launcher=$work_copy/bin/ddprun
programs=$build/tests/matrix
trainers=$build/tests/trainers
wanted=("${@:2}")
is_wanted() { [ "${#wanted[@]}" -eq 0 ] || [[ " ${wanted[*]} " == *" $1 "* ]]; }

# A link on which buckets take as long as backward.
slow=(env "SOFTGPU_LINK=latency_us=1000,gbytes_per_s=0.05")

# ---- jobs ----
ladder() { run "$launcher" -n 3 --bucket-mb 0.02 "$ladder" --layers 8 --width 48 --batch 24 --steps 12 --streams 2; }
wide() { run "$launcher" -n 2 --bucket-mb 1 "$ladder" --layers 2 --width 800 --batch 2 --steps 4; }
trains() { run "$launcher" -n 3 --bucket-mb 0.01 "$programs/$1_shared"; }
groups() { run "$launcher" -n 2 --bucket-mb 0.005 "$programs/gan_shared" --steps 24 --rhythm joint --streams 3; }
trainer() { run "$launcher" -n 2 --bucket-mb 0.005 "$trainers/$1" "${@:2}"; }
noise() { run env SOFTGPU_UNRULY=3:1 "$launcher" -n 2 --check-every 4 "$build/tests/noise/net" --right adam --rate 3e-3 --noise all --steps 24; }
measured() { run "${slow[@]}" "$launcher" -n 2 "$trainers/paced" --layers 12 --kib 64 --layer-us 1000 --forward-us 0 --steps 240; }

# broken MUTANT FILE CONDITION JOB...: it ends by that assertion of that file. Without the defect it has ended well.
declare -A passed=()
broken() {
    local name=$1 file=$2 condition=$3
    shift 3
    is_wanted "$name" || return 0
    if [ -z "${passed[$*]:-}" ]; then
        "$@"
        succeeded "$*: ends well without a defect"
        passed[$*]=1
    fi
    DDPRUN_MUTANT=$name "$@"
    ended_by "$name" "rank [0-9]+ [^:]*step[^:]*" "$file" "$condition"
}

# ended_by NAME WHO FILE CONDITION: the last job. Ranks that also fail are not said.
ended_by() {
    ends "$1" 1 "^ddprun: $2: internal error: $3:[0-9]+: "
    check "$1: the condition" grep -qF "$4" <(grep -E "^ddprun: $2: internal error: $3:[0-9]+: .* is false; the job ends, .*; please report this line" "$work/stderr")
    check "$1: one line" [ "$(grep -c 'internal error' "$work/stderr")" -eq 1 ]
}

engine=interpose/engine
broken RANGES_UNSORTED bucketing/ranges.c 'is_in_order(ranges->sorted, ' trains realloc
broken RANGES_SETTLED_LAST bucketing/ranges.c 'sorted[at - 1].end <= recent[left - 1].begin' ladder
broken SPANS_EMPTY bucketing/words.c 'end > first' ladder
broken COPIES_MISALIGNED bucketing/words.c 'from % STEP == 0' trainer escapes once
broken HISTORY_OF_FEW bucketing/history.c 'gradient < history->gradient_count' ladder
broken LAST_BUCKET_STAYS bucketing/readiness.c 'launched == readiness->plan->bucket_count' ladder
broken MARKS_AHEAD bucketing/drift.c 'look->marked <= drift->mark_count' noise
broken CUT_IN_ELEMENTS comm/wire.c 'bytes % element_bytes == 0' wide
broken ALL_NEIGHBOURS comm/wire.c '== members[0].address + bytes' ladder
broken MEMBERS_OVERLAP comm/wire.c 'at == wire->element_count' trainer values separate mean none 7 9
broken STREAMS_FORGOTTEN "$engine/core/streams.c" 'entry.handle != NULL' groups
broken STREAM_UNNAMED "$engine/core/streams.c" ': handle != NULL' trains accumulate
broken MARK_BEFORE_ITSELF "$engine/graphs/captures.c" 'previous < capture->mark_count' trainer graphs fork
broken SPANS_UNMERGED "$engine/memory/filter_writer.c" 'spans[i - 1].end <= spans[i].begin' trainer escapes once
broken PLACES_STALE "$engine/memory/memory.h" 'range->id < engine_state.tensor_count' trainer types_legacy forget
broken NUMBERS_SWAPPED "$engine/memory/memory.h" 'tensor->member == member' trains accumulate
broken MANAGED_SENT_EARLY "$engine/send/bucket_launch.c" '!tensor_is_shared(tensor)' trains managed
broken GROUP_UNEXPECTED "$engine/send/bucket_launch.c" 'group->id == memory_state.expected_group' trains towers
broken READY_TIMES_FEW "$engine/measure/measure.c" 'gradient < of->capacity' measured
broken TRIAL_WAY_ABSENT bucketing/trial.c 'way < shape->ways' measured
broken READINESS_OF_OTHER_PLAN "$engine/send/bucket_launch.c" 'group->readiness.plan == group->plan' measured
broken SHIPMENT_OF_OTHER_PLAN "$engine/send/bucket_launch.c" 'group->shipment.plan == group->plan' measured

# ---- in any thread, with any lock ----
# Above: with the engine's lock (history.c), with that of captures, and as the issuer (bucket_launch.c).
broken HISTORY_OF_FEW bucketing/history.c 'gradient < history->gradient_count' trainer habits thread-per-backward
broken FALSE_IN_HOST_FUNCTION "$engine/core/hashing.c" '!MUTANT' ladder
broken FALSE_IN_WATCH "$engine/report/watchdog.c" '!MUTANT' measured # its job lasts longer than a look
broken FALSE_AT_EXIT "$engine/core/ending.c" '!MUTANT' ladder

# ---- one rank alone ----
alone='[ "$RANK" -eq 1 ] && [ -z "${DDPRUN_RESTART:-}" ] || unset DDPRUN_MUTANT; exec "$@"'
if is_wanted HISTORY_OF_FEW; then
    export DDPRUN_MUTANT=HISTORY_OF_FEW
    run "$launcher" -n 2 --device softgpu --summary-json "$work/end.json" sh -c "$alone" sh "$ladder" --steps 12
    ended_by "one rank alone" "rank 1 after step 1" bucketing/history.c 'gradient < history->gradient_count'
    check "one rank alone: what the other one does is said" grep -Eq '^  rank 0 .*, with [0-9]+ steps? launched: ' "$work/stderr"
    check "one rank alone: the summary has the line" python3 -IS -c '
import json, sys
end = json.load(open(sys.argv[1]))
assert end["exit_code"] == 1 and end["reason"].startswith("rank 1 after step 1: internal error: bucketing/history.c:"), end' "$work/end.json"

    # As after any other failure, a job begins anew that may.
    run "$launcher" -n 2 --device softgpu --max-restarts 1 sh -c "$alone" sh "$ladder" --steps 12
    ends "a job that restarts" 0 '^ddprun: restart 1 of 1: '
    check "a job that restarts: says why" grep -q '^ddprun: rank 1 after step 1: internal error: bucketing/history.c:' "$work/stderr"

    run "$launcher" check -n 2 --steps 3 "$ladder" --steps 3
    check "ddprun check: exit code 1, not $code" [ "$code" -eq 1 ]
    check "ddprun check: shows the line" grep -q 'internal error: bucketing/history.c:' "$work/stdout" "$work/stderr"
    unset DDPRUN_MUTANT
fi

# ---- ddprun itself ----
# It ends its ranks, and does not begin anew. Its guardian removes what is left.
if is_wanted FALSE_IN_SUPERVISOR; then
    DDPRUN_MUTANT=FALSE_IN_SUPERVISOR run "$launcher" -n 2 --max-restarts 1 "$ladder" --steps 1000000
    check "ddprun itself: exit code 1, not $code" [ "$code" -eq 1 ]
    check "ddprun itself: one line" [ "$(grep -c '^ddprun: ' "$work/stderr")" -eq 1 ]
    check "ddprun itself: says why" grep -Eq '^ddprun: internal error: launcher/supervisor.c:[0-9]+: .*!MUTANT' "$work/stderr"
    check "ddprun itself: leaves no process" within 10 none_left
    check "ddprun itself: leaves nothing" within 10 test -z "$(ls -A "$TMPDIR")"
fi
finish
