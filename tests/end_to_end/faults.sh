#!/usr/bin/env bash
# faults.sh BUILD - no rank trains on alone in silence: every failure ends the job, once, with a message that says what and where.
source "$(dirname "$0")/lib.sh"
limit=90
timeout=60

# fault NAME CODE PATTERN OPTIONS...: trains with a fault on two ranks. Ordinarily a third of them (in_turn).
fault() {
    local name=$1 expected=$2 pattern=$3
    in_turn 3 || return
    shift 3
    fails "$name" "$expected" "$pattern" "$ddprun" -n 2 --bucket-mb 0.02 --timeout "$timeout" "$ladder" --steps 12 --fault "$@"
}

# Annotations.
fault "no memory" 1 "rank [01].*DDP_GRADIENT number 9 \(.no_memory., 16 float32, .*ladder.cu:[0-9]+\).* is not device memory, and only 0 of 64 bytes of host memory there can be read" no-memory
fault "overlapping annotations" 1 "DDP_GRADIENT number 9 \(.first \+ count / 2., 576 float32, .* overlaps DDP_GRADIENT number 1 \(.t->layers\[l\].gradient., 2304 float32," overlap
fault "a count beyond the allocation" 1 "the allocation ends after" beyond
fault "no such type" 1 "element type 77 is invalid" type
fault "other sizes on other ranks" 1 "ranks 0 and 1 annotate different gradients: number 9, .*2304 float32 on rank 0.*1152 float32 on rank 1" other-size
fault "other parameters on other ranks" 1 "ranks 0 and 1 annotate different parameters: number 9, .*2304 float32 on rank 0.*1152 float32 on rank 1" other-parameter
fault "another order on other ranks" 1 "ranks 0 and 1 annotate gradients in another order: number 9 is .t->layers\[0\].momentum. \(ladder.cu:[0-9]+\) on rank 0, .t->layers\[1\].momentum. \(ladder.cu:[0-9]+\) on rank 1" other-order
fault "one gradient more on one rank" 1 "rank 0 annotates 8 gradients, rank 1 annotates 9; the first that only one has is number 9, " one-more --fault-rank 1
fault "DDP_STEP without gradients" 1 "DDP_STEP .* without gradients" no-gradients
fault "a program without annotations" 1 "ended without a DDP_STEP" none
fault "a program without annotations, whose exit status others see as 0" 1 "ended without a DDP_STEP" none --exit 256
fault "a program that leaves by _exit before its first step" 1 "rank [01] annotated 8 gradients and ended without a DDP_STEP" quick-exit --fault-step 1

differs='[ "$RANK" = 1 ] && export DDPRUN_TEST_BUCKET_BYTES=8192; exec "$0" "$@"'
run "$ddprun" -n 2 --device "$device" sh -c "$differs" "$ladder" --steps 12
failed_with "other options on other ranks: both plans are shown, before anything is sent" 1 \
    "ranks 0 and 1 have different plans of buckets, and nothing was sent by them: as its piece number [0-9]+, rank 0 would send gradient [0-9] of 8 \(.t->layers\[l\].gradient., 2304 float32, ladder.cu:[0-9]+\), bytes 0 to [0-9]+, in bucket [0-9]+; rank 1 gradient [0-9] of 8 \(.t->layers\[l\].gradient., .*in bucket [0-9]+"

# The first byte behind the only record of the status page is one of the version of the options.
run "$ddprun" -n 1 --device "$device" sh -c 'printf "\077" | env -u LD_PRELOAD dd of="$_DDPRUN_JOB_DIR/status" bs=1 seek=40960 conv=notrunc 2>/dev/null; exec "$0" --steps 1' "$ladder"
failed_with "options of another version" 1 "launcher and engine are of different versions \(63 and [0-9]+\)"

fault "no parameter is annotated: said, for nothing else would" 0 "no parameter is annotated: each rank keeps" no-parameters &&
    check "no parameter is annotated: said once" [ "$(grep -c 'no parameter is annotated' "$work/stderr")" -eq 1 ]
fault "one parameter of eight is not annotated: said once" 0 "gradients without a parameter of the same size: .* Annotated: 18432 elements of gradients, 16128 of parameters" few-parameters
fault "half the count of each parameter: said once" 0 "gradients without a parameter of the same size: .* Annotated: 18432 elements of gradients, 9216 of parameters" half-parameters &&
    check "half the count of each parameter: the elements, and the part of an allocation" [ "$(grep -c '^ddprun: .*annotat.* correct the count' -i "$work/stderr")" -eq 2 ]
run "$ddprun" -n 2 "$ladder" --fault few-gradients
check "one gradient of eight is not annotated: said, with its parameter, before parameters differ" grep -Eq \
    '^ddprun: parameters without a gradient of the same size: 8 parameters and 7 gradients of 2304 elements. .* 18432 elements of parameters, 16128 of gradients$' "$work/stderr"
fault "half the count of parameters and gradients: said once, as a list" 0 \
    "annotations cover a part of their allocations: parameter 1 of 8 \(.t->layers\[l\].weight., 1152 float32, ladder.cu:[0-9]+\): 4608 of 9216 bytes, .* and 14 more. Correct the count" half-both
fault "all elements are annotated: the closing line has their number" 0 "bitwise identical .*; 18432 elements of parameters, 18432 of gradients$" momentum-behind &&
    check "all elements are annotated, with momentum behind the weights: no word of a part" bash -c "! grep -Eq 'of the same size|cover a part' '$work/stderr'"
run "$ddprun" -n 2 "$ladder" --fault padded
check "all elements are annotated, with padding behind them: no word of a part" bash -c "! grep -Eq 'of the same size|cover a part' '$work/stderr'"

# DDP_MEAN: the host reads and writes what it is handed.
fault "DDP_MEAN of a null pointer" 1 "DDP_MEAN .mean_of. \(.*ladder.cu:[0-9]+\): a null pointer; pass a float or double in host memory" mean-of-null --fault-step 3
fault "DDP_MEAN of device memory" 1 "DDP_MEAN .mean_of. \(.*ladder.cu:[0-9]+\): device memory; pass a float or double in host memory" mean-on-device --fault-step 3

# Deviations.
fault "a late read is allowed" 0 "parameters bitwise identical" late-read --fault-step 9
fault "a write after a bucket's launch" 0 "parameters bitwise identical" late-write --fault-step 9
works "a write after a bucket's launch, and all ranks leave by _exit" "$ddprun" -n 2 --bucket-mb 0.02 "$ladder" --steps 12 --fault late-leave --fault-step 12
for step in 2 4; do # in step 4 what has been averaged is looked at again
    fault "a gradient freed before DDP_STEP number $step" 1 "gradient [0-9]+ of [0-9]+ \(.t->layers\[l\].gradient., .* was freed and not annotated again" free --fault-step $step
done
for step in 2 11; do # in step 11 nothing is compared
    fault "a parameter freed before DDP_STEP number $step" 1 "parameter [0-9]+ of [0-9]+ \(.t->layers\[l\].weight., .* was freed and not annotated again" move-parameter --fault-step $step
done
fault "a parameter freed on one rank" 1 "rank 1 after step 10: parameter .* was freed and not annotated again" move-parameter --fault-step 11 --fault-rank 1
fault "a parameter freed after the last step" 0 "parameters bitwise identical.*last after step 12 of 12" move-parameter-late --fault-step 12
fault "a parameter freed and annotated again" 0 "parameters bitwise identical.*last after step 12 of 12" move-and-annotate --fault-step 11
fault "a write that no call shows" 0 "parameters bitwise identical" hidden-write --fault-step 6
for write in late-write hidden-write; do # of step 20, which is long after the first ones
    for with in "" --no-overlap; do
        run "$ddprun" -n 2 ${with:+"$with"} --bucket-mb 0.02 "$ladder" --steps 24 --fault "$write" --fault-step 20 --save "$work/written$with-%d"
        succeeded "$write ${with:-with overlap}"
    done
    check "$write: what DDP_STEP alone would average" cmp "$work/written-0" "$work/written--no-overlap-0"
done
fault "a parameter that drifts" 1 "parameter [0-9]+ of [0-9]+ \(.t->layers\[l\].weight., .* differs between ranks 0 and 1 after step" drift --fault-step 3 --fault-rank 1

run "$ddprun" -n 2 --no-overlap --check-every 100 "$ladder" --steps 12 --fault drift --fault-step 4 --fault-rank 1
failed_with "a parameter that drifts, without overlap: compared after step 5" 1 "differs between ranks 0 and 1 after step 5:"
check "a rank that names the reason: no list of its last events" \
    awk '/^  rank / { names = /stopped the job/; ++count[names] } names && /its last events/ { bad = 1 } END { exit bad || !count[1] }' "$work/stderr"

# All ranks begin alike, and have one DDP_STEP in each step, between backward and the optimizer.
for rank in 0 2; do
    run "$ddprun" -n 4 --share-gpu --no-overlap --timeout "$timeout" "$ladder" --steps 12 --fault drift --fault-step 4 --fault-rank $rank
    failed_with "a parameter that drifts on rank $rank of 4: that rank is named, and its memory" 1 \
        "differs between rank $rank and most other ranks after step [0-9]+: .*; a fault of that rank's memory or GPU"
done
fault "DDP_PARAMETER before the initialisation" 1 "parameter 1 of 8 \(.t->layers\[l\].weight., 2304 float32, .* differs between ranks 0 and 1 at the first DDP_STEP: its annotation stands before its initialisation" init-late
fails "the same with --check-every 0: compared when steps overlap" 1 "differs between ranks 0 and 1 after step [0-9]+:" "$ddprun" -n 2 --check-every 0 "$ladder" --fault init-late
fault "other initial values on other ranks, then DDP_PARAMETER" 0 "parameters bitwise identical" other-seeds
fault "DDP_STEP after the optimizer" 1 "differs between ranks 0 and 1 at the first DDP_STEP: .*, or the optimizer ran before DDP_STEP" step-behind
fault "DDP_STEP left out" 1 "after step 11: DDP_STEP was left out: the work on gradients before DDP_STEP number 8 is that of two steps or more" no-step --fault-step 8 &&
    check "DDP_STEP left out: no advice of another kind" bash -c "! grep -q 'no-overlap' '$work/stderr'"
run "$ddprun" -n 2 --no-overlap "$ladder" --fault no-step --fault-step 8
failed_with "DDP_STEP left out, without overlap" 1 "after step 11: DDP_STEP was left out: the work on gradients before DDP_STEP number 8 is that of two steps or more"
fails "backward passes that accumulate, and then one fewer" 0 "parameters bitwise identical" "$ddprun" -n 2 --bucket-mb 0.02 "$ladder" --accumulate 3 --fewer-from 9

# Ranks that fall out of step.
fault "fewer steps on one rank" 1 "rank 1( .*)? waits at the end of the program after 8 steps|ended after 8 steps" fewer-steps --fault-step 9 --fault-rank 1
fault "DDP_MEAN on one rank only" 1 "rank 0 waits at DDP_MEAN .ladder.cu:[0-9]+. after step 5" mean-on-one --fault-step 5 --fault-rank 1
for step in 2 7; do # before steps overlap, and after
    fault "a kernel of the trainer's that fails in step $step is reported as the trainer's" 1 \
        "rank 1 .*: a kernel of the trainer failed with CUDA_ERROR_ILLEGAL_ADDRESS; CUDA reports it at a later call, here: .*; last kernel launched: .norm_log." \
        wild-write --fault-step "$step" --fault-rank 1
done
for result in 214:ECC_UNCORRECTABLE 220:NVLINK_UNCORRECTABLE; do
    in_turn 2 || continue
    SOFTGPU_FAULT_RESULT=${result%:*} fault "a GPU that fails is not taken for a kernel, ${result#*:}" 1 \
        "rank 1 .*: the GPU itself has failed with CUDA_ERROR_${result#*:}, no kernel of the trainer; CUDA reports it here: .*: take the GPU out of use, or reset it" \
        wild-write --fault-step 7 --fault-rank 1
done
fault "a crash" 139 "rank 1 .*SIGSEGV" crash --fault-step 7 --fault-rank 1
fault "an exit code" 3 "rank 1 .*3" exit --fault-step 7 --fault-rank 1
fault "an exit that skips the end" 1 "rank 1" quick-exit --fault-step 7 --fault-rank 1
timeout=$patience
fault "a rank that hangs" 1 "waited $patience s for (the other ranks|rank 1)" hang --fault-step 7 --fault-rank 1

# When the launcher is killed, all ranks end with it, ranks behind a shell too: they are known by a mark in their environment.
mark=ddprun-orphan-$$-$RANDOM
env "DDPRUN_TEST_MARK=$mark" "${runtime[@]}" "$ddprun" -n 2 --device "$device" sh -c "$ladder --steps 1000000; true" \
    </dev/null >"$work/orphan" 2>&1 &
launcher=$!

trains() { grep -q 'step 20 ' "$work/orphan"; }
check "a launcher that is killed: the job trains first" within 60 trains
disown "$launcher"
kill -KILL "$launcher"
check "a launcher that is killed: no process is left" within 20 none_left

# What only looks like a fault.
timeout=60
for rank in 0 1; do
    fails "rank $rank leaves by _exit when it is done, another has more to do" 0 "3 ranks, 12 steps" "$ddprun" -n 3 "$ladder" --steps 12 --fault leave --fault-rank "$rank"
done
fault "a forked child" 0 "parameters bitwise identical" fork --fault-step 7
fault "a device reset at the end" 0 "parameters bitwise identical.*last after step 12 of 12" reset

# One process is the rank: others of its tree stay passive; annotated ones get an error.
export LADDER_PROGRAM="$digits_plain --data $data --steps 3"
fault "a second program that uses the device" 0 "parameters bitwise identical" program --fault-step 7 &&
    check "a second program that uses the device: it ran" grep -qx 'the program ended with 0' "$work/stdout"
export LADDER_PROGRAM="$ladder --steps 2"
works "a second annotated program: the first continues" "$ddprun" -n 2 "$ladder" --steps 12 --fault program --fault-step 7
check "a second annotated program: it stops" grep -qx 'the program ended with 256' "$work/stdout"
check "a second annotated program: says why" grep -Eq '^ddprun: process [0-9]+ annotates at .*, but process [0-9]+ already is rank 0' "$work/stderr"
export LADDER_PROGRAM="for i in 1 2 3 4 5 6 7 8 9 10 11 12; do $ladder --steps 2; done; sleep 600"
run "$ddprun" -n 2 "$ladder" --steps 12 --fault program --fault-step 7
check "a helper that is started again and again: ends the job" [ "$code" -eq 1 ]
check "a helper that is started again and again: says why" grep -Eq '^ddprun: rank [01] has started 1[0-2] processes that annotate, too, beside its trainer' "$work/stderr"
# The first has only the lock so far: the second's words are not left in the record, which the first is about to fill.
run "$ddprun" -n 2 --device "$device" sh -c '(exec 9>>"$_DDPRUN_JOB_DIR/rank-$_DDPRUN_STATUS_INDEX.lock"; flock -n 9 || exit; "$0" --steps 2; echo "it ended with $?"); exec "$0" --steps 12' "$ladder"
succeeded "a second annotated program while the first starts: the first continues"
check "a second annotated program while the first starts: it stops" [ "$(grep -c 'it ended with 1$' "$work/stdout")" -eq 2 ]
check "a second annotated program while the first starts: says why" [ "$(grep -Ec '^(\[1\] )?ddprun: process [0-9]+ (annotates at|asks for its rank).*, but process [0-9]+ already is rank [01]; start one' "$work/stderr")" -eq 2 ]
# A program that the trainer starts may have the descriptors that the test itself has inherited, but no socket of ddprun.
export LADDER_PROGRAM='readlink /proc/self/fd/*'
works "descriptors of a trainer's program: read" "$ddprun" -n 2 --device "$device" "$ladder" --steps 12 --fault program --fault-step 7 --fault-rank 0
check "descriptors of a trainer's program: its output is there" grep -q '^/dev/null$' "$work/stdout"
readlink /proc/$$/fd/* | sort >"$work/inherited"
check "descriptors of a trainer's program: no socket" [ -z "$(grep '^socket:' "$work/stdout" | sort | comm -23 - "$work/inherited")" ]
unset LADDER_PROGRAM

# NCCL.
run "$ddprun" -n 2 --nccl "$work/nothing.so" "$ladder"
check "a missing NCCL: exit code" [ "$code" -ne 0 ]
check "a missing NCCL: one line" [ "$(grep -c '^ddprun: ' "$work/stderr")" -eq 1 ]
fails "an NCCL that is too old" 1 "libold_nccl_21701.so is NCCL 2.17.1; 2.18 or newer is needed" "$ddprun" -n 2 --nccl "$build/tests/comm/libold_nccl_21701.so" "$ladder"
fails "a library that is not NCCL" 1 "libddprun.so is not NCCL: it has no ncclGetVersion" "$ddprun" -n 2 --nccl "$build/lib/libddprun.so" "$ladder"
finish
