#!/usr/bin/env bash
# mutants.sh BUILD [MUTANT...] - the tests would notice: for each defect that tests/lib/mutants.txt names there is a scene, a run that the real
# engine passes and the broken one fails. Ordinarily a third of them (in_turn); with DDPRUN_SOAK=1 all.
source "$(dirname "$0")/lib.sh"
limit=90
work_copy=$work/copy # what a user has, but for launcher and engine: the launcher finds its libraries beside itself
mkdir -p "$work_copy/bin" "$work_copy/lib"
cp "$build/tests/mutants/ddprun" "$work_copy/bin/"
ln -s "$build/lib/libddprun.so" "$build/lib/softgpu" "$work_copy/lib/"
ln -s "$build/tests/mutants/libddprun-engine.so" "$work_copy/lib/libddprun-engine.so"
launcher=$work_copy/bin/ddprun
programs=$build/tests/matrix
ladder_options=(--layers 8 --width 48 --batch 24 --steps 12 --streams 2)

# Delays wherever order is not enforced.
set_order() {
    disorder=("SOFTGPU_CHAOS=$1" "SOFTGPU_LINK=latency_us=2000,gbytes_per_s=1")
}
set_order 7

# equal RANKS SERIAL OPTIONS... -- PROGRAM...: trains; all ranks are the same, and equal to the serial run. Few steps are compared: such
# a step is waited for in DDP_STEP, which hides a missing order.
equal() {
    local ranks=$1 serial=$2 rank
    shift 2
    rm -f "$work"/rank-*
    run env "${disorder[@]}" "$launcher" -n "$ranks" --bucket-mb 0.02 --timeout "$seconds" "$@" \
        --save "$work/rank-%d"
    [ "$code" -eq 0 ] || return 1
    for ((rank = 1; rank < ranks; rank++)); do
        cmp -s "$work/rank-0" "$work/rank-$rank" || return 1
    done
    "$compare" --quiet "$work/rank-0" "$serial" 1e-5 >/dev/null
}

# ends CODE PATTERN OPTIONS...: the ladder with a fault ends with this code, and ddprun reports the fault.
ends() {
    local expected=$1 pattern=$2
    shift 2
    run env "${disorder[@]}" "$launcher" -n 2 --bucket-mb 0.02 --timeout "$seconds" "$ladder" --steps 12 --fault "$@"
    [ "$code" -eq "$expected" ] && grep -Eq "^ddprun: .*($pattern)" "$work/stderr"
}

# well OPTIONS... PROGRAM...: the job ends well, in this order; the program knows what is right.
well() {
    run env "${disorder[@]}" "$launcher" --timeout "$seconds" "$@" && [ "$code" -eq 0 ]
}

# said CODE PATTERN OPTIONS... PROGRAM...: a job of two ranks ends with this code, and a line is so.
said() {
    run "$launcher" -n 2 --timeout "$seconds" "${@:3}"
    [ "$code" -eq "$1" ] && grep -q "$2" "$work/stderr"
}
trainers=$build/tests/trainers

# ---- scenes ----
stopped() { # the signal reaches rank 0 of two
    rm -f "$work/stopped"
    well -n 2 --device softgpu "$trainers/stops" --seed 4 --save "$work/stopped" && grep -q 'rank 1 leaves' "$work/stdout"
}
ladder() { equal 3 "$work/ladder.serial" -- "$ladder" "${ladder_options[@]}"; }
trainer() { equal 3 "$work/$1.serial" --bucket-mb 0.01 -- "$programs/$1_shared"; }
clips() { well -n 2 --bucket-mb 0.005 "$trainers/clips" "$1"; }
other_buckets() { # one rank has buckets of another size
    run "$launcher" -n 2 --device softgpu --timeout "$seconds" sh -c \
        '[ "$RANK" -eq 0 ] || export DDPRUN_TEST_BUCKET_BYTES=9000; exec "$@"' sh "$ladder" --steps 12
    [ "$code" -eq 1 ] && grep -q "different plans of buckets" "$work/stderr"
}

trial() { # buckets of a trial are the same in all its steps, and it has a result: steps are shorter without overlap
    run env SOFTGPU_LINK=latency_us=1000,gbytes_per_s=0.05,slows=6,busy_factor=4 "$launcher" -n 2 --timeout "$seconds" \
        "$trainers/paced" --layers 12 --kib 64 --layer-us 5000 --forward-us 0 --steps 110 && [ "$code" -eq 0 ] &&
        grep -q '^ddprun: steps are shorter without overlap here .*: overlap is off from step' "$work/stderr"
}

layouts() { # steps with other buckets
    run env SOFTGPU_LINK=latency_us=2000,gbytes_per_s=0.05 "$launcher" -n 2 --timeout "$seconds" --trace "$work/layouts" \
        "$trainers/paced" --layers 12 --kib 256 --layer-us 3000 --forward-us 1000 --steps 110 && [ "$code" -eq 0 ] &&
        grep -q '^{"layout_trial"' "$work/layouts/rank-0.jsonl"
}

parts() { # KIND OPTIONS...: a trace has the parts of what the program does between steps
    rm -rf "$work/parts"
    run "$launcher" -n 2 --timeout "$seconds" --trace "$work/parts" "$trainers/phases" "${@:2}" && [ "$code" -eq 0 ] &&
        "$launcher" report "$work/parts" -o "$work/parts.html" &&
        python3 "$(dirname "${BASH_SOURCE[0]}")/phases.py" "$1" "$work/parts" "$work/parts.html" 2>/dev/null
}

trusting() { # MODE SAVED: nothing of a step that is wrong on trust leaves the device
    rm -f "$work/saved"
    run env DDPRUN_TEST_TRUST_AFTER=2 DDPRUN_TEST_TRIALS=0 "$launcher" -n 2 --bucket-mb 0.004 --commit trust --timeout "$seconds" "$trainers/trusting" "$1" "$work/saved" waits
    [ "$code" -eq 1 ] && grep -qxE "$2" "$work/saved"
}
unseen() { well -n 2 --bucket-mb 0.005 "$trainers/escapes" "$1"; }
in_graph() { # MODE COUNT [MIB]: trains, and so many steps are in graphs
    well -n 3 --bucket-mb "${3:-0.006}" --check-every 1 "$trainers/graphs" "$1" && { [ "$2" -eq 0 ] || grep -q " $2 of them in CUDA graphs" "$work/stderr"; }
}
tensor_map() { SOFTGPU_TENSOR_MAPS=scrambled unseen map; }
fused() { # MODE
    "$trainers/fused" "$1" --save "$work/fused_$1.serial" && equal 2 "$work/fused_$1.serial" --bucket-mb 0.004 -- "$trainers/fused" "$1"
}
scratch() { # what is written anew in each step is no parameter
    run "$launcher" -n 2 --timeout "$seconds" "$trainers/forgotten" right-scratch && [ "$code" -eq 0 ] && not_asked "$work/stderr"
}
fused_streams() { # parameters that a stream updates which no DDP_STEP names are sent during backward, too
    fused streams && ! grep -q ' 0 of them overlapped' "$work/stderr"
}
by_turns() { # MODE: two ranks have the bits of one process that plays their turns
    rm -f "$work"/rank-*
    "$trainers/turns" "$1" --play 2 --save "$work/played" && well -n 2 --bucket-mb 0.001 "$trainers/turns" "$1" --save "$work/rank-%d" &&
        cmp -s "$work/played" "$work/rank-0" && cmp -s "$work/played" "$work/rank-1"
}
reduced() { well -n 3 "${@:2}" "$trainers/reduces" "$1"; } # MODE OPTIONS...

deviates() { # VARIABLE=VALUE ARGUMENTS...: a rank sends at DDP_STEP what the other has sent early
    rm -f "$work/barrier"
    run env "$1" SOFTGPU_MEMORY_BYTES=1000000000 "$launcher" -n 2 --device softgpu --bucket-mb 0.0325 --timeout "$seconds" "$trainers/deviates" "${@:2}" \
        --barrier "$work/barrier" &&
        [ "$code" -eq 0 ]
}
rounds() { # ddprun's kernels do not load, and sums differ by rounding
    run env SOFTGPU_DRIVER=12040 SOFTGPU_UNRULY=1:1 "$launcher" -n 4 --timeout "$seconds" "$build/tests/noise/net" --right momentum && [ "$code" -eq 0 ]
}

drifts() { # parameters part after the tenth step: no later one is saved
    rm -f "$work/saved"
    run env SOFTGPU_HOST_FUNCTION_US=100000 "$launcher" -n 2 --verify --timeout "$seconds" "$trainers/judged" drift "$work/saved"
    [ "$code" -eq 1 ] && grep -q 'differs between ranks 0 and 1 after step 10' "$work/stderr" && [ "$(cut -d ' ' -f 1 "$work/saved")" -le 10 ]
}
saves() { # MODE WEIGHTS: those of the last step, after a step in which gradients are written once more
    rm -f "$work/saved"
    well -n 2 --bucket-mb 0.004 "$trainers/judged" "$1" "$work/saved" && grep -qx "40 $2" "$work/saved"
}

# once SCENE...: it passes, and no bucket is sent once more: each was complete when it was sent.
cat >"$work_copy/bin/ddprun-summary" <<END
#!/bin/sh
exec "$launcher" --summary-json "$work/summary" "\$@"
END
chmod +x "$work_copy/bin/ddprun-summary"
once() {
    local launcher=$work_copy/bin/ddprun-summary
    rm -f "$work/summary"
    "$@" && python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["repaired_steps"] > 0)' "$work/summary"
}

# passes SCENE...: with the real engine. Times are noise where the machine is busy with something else: two scenes are tried again.
passes() { "$@" || { [[ $1 == @(trial|layouts) ]] && { "$@" || "$@"; }; }; }

# mutant NAME SCENE...: the scene fails with the defect. The real engine has passed it before.
declare -A passed=()
mutant() {
    local name=$1 order
    shift
    if [ "${#wanted[@]}" -eq 0 ]; then in_turn 3; else [[ " ${wanted[*]} " == *" $name "* ]]; fi || return 0
    if [ -z "${passed[$*]:-}" ]; then
        seconds=60
        set_order 7
        check "scene $*: the real engine passes" passes "$@"
        passed[$*]=1
    fi
    # Ranks that wait for each other for ever are part of some defects: not for long. A wrong order need not show in each run.
    for order in 7 8 9 10 11; do
        set_order "$order"
        (seconds=$patience DDPRUN_MUTANT=$name "$@") >"$work/check" 2>&1 && continue # what run() counts does not count here
        ok "$name is caught by $*: $(sed -n 's/^ddprun: //p' "$work/stderr" | head -n 1 | cut -c 1-100)"
        return
    done
    not_ok "$name is caught by $*" "it passes as the real engine does"
}

wanted=("${@:2}")
run "$ladder" "${ladder_options[@]}" --save "$work/ladder.serial"
for program in accumulate flat managed realloc streams structs towers; do
    works "$program alone" "$programs/${program}_shared" --save "$work/$program.serial"
done

mutant IDENTITY_MIXED trainer realloc
mutant OLD_ADDRESS trainer realloc
mutant STRUCTS_UNSEEN trainer structs
mutant OPERANDS_UNSEEN said 0 "" "$trainers/types_legacy" steady
mutant ONE_OF_MANY once trainer flat
mutant ESCAPE_IGNORED once unseen once
mutant ESCAPES_ALIGNED_TO_16 once unseen odd
mutant ESCAPES_ALIGNED_TO_16 once unseen odd-late
mutant TENSOR_MAPS_UNSEEN once tensor_map
mutant ARRAY_TRUSTED once unseen batched-built
mutant VOTE_ALONE ends 0 "parameters bitwise identical" late-read --fault-step 3 --fault-rank 0
mutant PLANS_UNCOMPARED other_buckets
mutant CONTROL_BUCKETS_DIFFER trial
mutant LAYOUT_DIFFERS layouts
mutant VERDICT_DIFFERS layouts
mutant BATCH_OF_ANY_SIZE parts parts --steps 80 --every 20
mutant BATCH_ELSEWHERE parts thread --steps 40 --thread 1
mutant SAVING_UNSEEN parts resident --steps 80 --every 20 --no-copy 1
mutant OPTIONAL_ANYWHERE once clips branch
mutant OPTIONAL_UNSEEN once clips both
mutant OPTIONAL_FIXED once clips skip
mutant LEARNED_TOO_SOON once clips again
mutant GRAPH_TOUCHES_UNSEEN once clips graph
mutant NO_PRODUCER_WAIT ladder
mutant SECOND_STREAM_FORGOTTEN once ladder
mutant GRADIENT_LEFT_OUT ladder
mutant SUM_NOT_MEAN ladder
mutant WEIGHT_IGNORED well -n 3 --bucket-mb 0.006 "$trainers/weights" uneven
mutant ORDER_DIFFERS ladder
mutant CONTEXT_NOT_WAITED trainer managed
mutant CONTEXT_NOT_WAITED well -n 2 "$trainers/host_memory" pinned plain
mutant AVERAGES_NOT_WAITED trainer managed
mutant STAGED_NOT_WAITED well -n 2 "$trainers/host_memory" pinned plain
mutant NO_BOUNDARY_WAIT ladder
mutant OTHER_STREAMS_RUN_ON trainer streams
mutant GRAPH_PRODUCERS_FORGOTTEN in_graph fork 22 1 # its first kernel reads gradients at once
mutant GRAPH_STREAMS_RUN_ON in_graph fork 22
mutant GRAPH_TOUCHES_UNSEEN in_graph halves 0
mutant GRAPH_UNCOUNTED in_graph fork 22
mutant STALE_UNSEEN saves slow "-30 -30.75"
mutant STALE_ALONE saves alone "-30 -30.5"
mutant STALE_UNREPAIRED saves slow "-30 -30.75"
mutant COMPARED_TOO_EARLY saves slow "-30 -30.75"
mutant TRUST_UNGUARDED trusting unseen '(9 -6\.75|10 -7\.25|11 .*)'
mutant COPIES_TRUSTED trusting async '9 -6\.75'
mutant KERNELS_TRUSTED trusting pointer '9 -6\.75'
mutant WAITS_TRUSTED trusting stream '9 -6\.75'
mutant CONNECTED_AT_START deviates SOFTGPU_NCCL_TAKES=100 after --leave 150
mutant CONNECTED_LATE deviates SOFTGPU_NCCL_TAKES=0 barrier --uneven 1 --count 256 --deviate 3 --steps 4
mutant BUCKETS_REGISTERED deviates SOFTGPU_NCCL_MEETS=registered barrier
mutant NVLS_MEETS deviates SOFTGPU_NCCL_MEETS=all barrier
mutant VALUES_BY_KERNELS rounds
mutant MEMORY_ALONE ladder
mutant JUDGEMENT_NOT_WAITED drifts
mutant PARAMETERS_UNCHECKED ends 1 "differs between ranks 0 and 1" drift --fault-rank 1
mutant HASH_NOT_RUN ends 1 "differs between ranks 0 and 1" drift --fault-rank 1
mutant STEPLESS_UNSEEN said 1 '^ddprun: .*has changed twice' "$trainers/stepless" train 40
mutant WEIGHTS_UNCOMPARED said 1 'the counts of all ranks add up to' "$trainers/weights" sum
mutant SHARDS_UNCOMPARED said 1 'shares out 48' --check-every 1 "$trainers/weights" shards
mutant PARAMETERS_UNSEEN fused_streams
mutant STATE_NOT_AVERAGED fused momentum
mutant RUNNING_UNSEEN said 1 'Running statistics, which forward writes' "$build/tests/tools/check/rows" --steps 12 statistics trained_statistics
mutant FORGOTTEN_TENSOR_UNCOMPARED scratch
mutant PARAMETERS_HASHED_EARLY fused mixed
mutant REDUCED_AS_FLOATS reduced types
mutant REDUCED_TOO_EARLY reduced order
mutant REDUCED_TOO_EARLY reduced host
mutant REDUCED_NOT_WAITED_FOR reduced order
mutant REDUCED_BEHIND_BUCKETS reduced training --bucket-mb 0.005
mutant REDUCES_UNCOMPARED said 1 'differ in call number 21 of DDP_REDUCE' "$trainers/reduces" swapped
mutant FLAG_ALONE stopped
mutant TURN_ALL_MADE by_turns plain
mutant TURN_UNKEPT by_turns cleared
mutant TURN_STREAMS_RUN_ON by_turns side
mutant TURN_COPIES_LEFT_OUT by_turns prefetch
mutant TURN_COPIES_LEFT_OUT by_turns managed
mutant TURN_NEW_LEFT_OUT by_turns late
mutant TURN_NOT_HELD once by_turns waits
finish
