#!/usr/bin/env bash
# wire.sh BUILD - however buckets are reduced, gradients become what they have to: in place, packed by kernels or by
# copies, in 16 bits, as means or sums; the same bits on all ranks, and the same
# bits in place as packed. What is broken on purpose on that way is noticed.
source "$(dirname "$0")/lib.sh"
limit=90
values=$build/tests/trainers/values

# reduces NAME RANKS MEMORY REDUCTION COMPRESSION [OPTIONS...]: every element within its bound; $hash is the ranks' one.
reduces() {
    local name=$1 ranks=$2 memory=$3 reduction=$4 compression=$5
    [[ $name == *disorder* || $name == *captured* || $name == strictly || $name == *summed* ]] && ! in_turn 3 && return
    shift 5
    run "$ddprun" -n "$ranks" --bucket-mb 0.02 --reduce "$reduction" --compress "$compression" "$@" \
        --trace "$work/trace" "$values" "$memory" "$reduction" "$compression"
    succeeded "$name"
    hash=$(sed -n 's/.*hash //p' "$work/stdout" | sort -u)
    check "$name: the same bits on all $ranks ranks" [ "$(grep -c hash "$work/stdout") $(wc -l <<<"$hash")" = "$ranks 1" ]
}

# took RANK PATH TYPE: a bucket of that rank did.
took() {
    check "rank $1: $2, $3" grep -q "\"path\":\"$2\",\"type\":\"$3\"" "$work/trace/rank-$1.jsonl"
}

# ---- in place and packed: the same bits ----
reduces "packed" 3 separate mean none
took 0 kernels float32
took 0 kernels float64
packed=$hash
DDPRUN_TEST_AT_STEP=1 reduces "in place" 3 flat mean none
check "in place: no bucket is packed" bash -c "! grep -q kernels '$work/trace/rank-0.jsonl'"
check "in place: the bits of packed" [ "$hash" = "$packed" ]
DDPRUN_TEST_AT_STEP=1 reduces "in place on some ranks, packed on others" 3 swapped mean none
took 0 "in place" float32
took 1 kernels float32
check "in place on some ranks: the bits of packed" [ "$hash" = "$packed" ]
reduces "before DDP_STEP, from copies" 3 flat mean none
check "before DDP_STEP: the bits of packed" [ "$hash" = "$packed" ]
reduces "memory that moves" 3 moving mean none
check "memory that moves: the bits of packed" [ "$hash" = "$packed" ]
reduces "while a stream is captured" 2 capturing mean none
reduces "while a stream is captured, checking everything" 2 capturing mean bf16 --verify
# A gradient of 2.4 MiB, in buckets of 1 MiB.
works "a gradient in pieces, before DDP_STEP" "$ddprun" -n 2 --bucket-mb 1 "$values" swapped mean none 7 9
DDPRUN_TEST_AT_STEP=1 works "a gradient in pieces" "$ddprun" -n 2 --bucket-mb 1 --verify --trace "$work/trace" "$values" swapped mean none 7 9
took 1 kernels float32
pieces=$(grep '^{"step":' "$work/trace/rank-0.jsonl" | tail -n 1 | grep -o '"path":"in place","type":"float32"' | wc -l)
check "a gradient in pieces: in place on rank 0, all but the one with others" [ "$pieces" -ge 2 ]
works "a gradient in pieces, in bfloat16" "$ddprun" -n 2 --bucket-mb 1 --compress bf16 "$values" separate mean bf16 7 9
reduces "one bucket" 2 swapped sum none --bucket-mb 25

# ---- in 16 bits ----
reduces "float16" 2 flat mean fp16
took 0 kernels float16
took 0 "in place" float64
check "float16: said once" [ "$(grep -c 'sent as float16, divided by 2' "$work/stderr")" -eq 1 ]
reduces "float16, summed" 3 swapped sum fp16
reduces "bfloat16" 3 separate mean bf16
took 0 kernels bfloat16
reduces "bfloat16, summed, at the boundary" 2 moving sum bf16 --no-overlap

# ---- float16: means keep tiny values and do not overflow ----
halves=$build/tests/trainers/halves
# keeps NAME RANKS MEMORY OPTIONS...: each mean is exact, and the same on all ranks.
keeps() {
    local name="means of float16, $1" ranks=$2 memory=$3
    in_turn 2 || return 0
    shift 3
    works "$name" "$ddprun" -n "$ranks" --bucket-mb 0.02 --trace "$work/trace" "$@" "$halves" "$memory"
    check "$name: the same bits on all $ranks ranks" [ "$(sed -n 's/.*hash //p' "$work/stdout" | uniq -c | wc -l)" -eq 1 ]
    took 0 kernels float32
    check "$name: the bytes that are sent" grep -q '3 gradients, 82.2 KiB per step' "$work/stderr"
}
keeps "two ranks" 2 separate
keeps "three ranks, next to each other" 3 flat
keeps "five ranks, at DDP_STEP" 5 flat --no-overlap
SOFTGPU_CHAOS=2 keeps "four ranks, in disorder" 4 separate --verify
works "float16 in 16 bits" "$ddprun" -n 3 --bucket-mb 0.02 --compress fp16 --trace "$work/trace" "$halves" separate narrow
took 0 kernels float16
check "float16 in 16 bits: said once" [ "$(grep -c -- '--compress: no gradient is of float32; 41.1 KiB per step are sent in their own types' "$work/stderr")" -eq 1 ]
check "float16 in 16 bits: the bytes that are sent" grep -q '3 gradients, 41.1 KiB per step' "$work/stderr"
run "$ddprun" -n 3 --compress fp16 "$halves" flat # which wants all bits
check "float16 in 16 bits: tiny values are lost" grep -q 'halves: step 0: element 0 of gradient 0 is 0x0p+0, and the mean is 0x1p-24' "$work/stderr"

# ---- whatever may be delayed is delayed; operations one at a time; checks of everything ----
for seed in 1 2; do
    SOFTGPU_CHAOS=$seed reduces "in disorder $seed" 2 moving mean fp16 --verify
done
SOFTGPU_STRICT=1 reduces "strictly" 2 swapped sum bf16

# ---- training ----
options=(--layers 8 --width 48 --batch 24 --steps 12 --streams 2)
works "training alone" "$ladder" "${options[@]}" --save "$work/serial"

# trains NAME RANKS TOLERANCE OPTIONS...: all ranks the same bits, the serial run's weights up to the tolerance.
trains() {
    local name=$1 ranks=$2 tolerance=$3
    in_turn 2 || return 0
    shift 3
    rm -f "$work"/rank-*
    works "$name" "$ddprun" -n "$ranks" --bucket-mb 0.02 --check-every 1 "$@" "$ladder" "${options[@]}" --save "$work/rank-%d"
    same_on_all_ranks "$name" "$ranks"
    check "$name: serial up to $tolerance" "$compare" --quiet "$work/rank-0" "$work/serial" "$tolerance"
    overlapped "$name"
}
trains "training" 3 "$close"
SOFTGPU_CHAOS=3 trains "training in disorder" 2 "$close" --verify
trains "training in float16" 2 1e-3 --compress fp16
trains "training in bfloat16" 3 1e-2 --compress bf16

# A sum is as many means as there are ranks, and that much more rate.
run "$ladder" "${options[@]}" --rate 0.1 --save "$work/serial"
trains "training on sums" 2 "$close" --reduce sum
run "$ddprun" -n 2 --quiet --compress none --reduce mean "$ladder" "${options[@]}" --save "$work/default-%d"
run "$ddprun" -n 2 --quiet "$ladder" "${options[@]}" --save "$work/plain-%d"
check "what is said is what is the default" cmp "$work/default-0" "$work/plain-0"

# ---- one rank: nothing is sent ----
run "$ddprun" -n 1 --compress bf16 "$ladder" "${options[@]}" --rate 0.1 --save "$work/one-%d"
check "a world of one: bitwise the bare program" cmp "$work/one-0" "$work/serial"

# ---- mistakes on the command line ----
in_turn 3 && for mistake in "--compress fp8" "--compress" "--reduce average" "--communicators 2"; do
    read -r -a words <<<"$mistake"
    fails "$mistake" 2 "${words[0]}" "$ddprun" "${words[@]}" "$ladder"
done

# install FOLDER ENGINE: a copy of what a user has, with another engine. The launcher finds its libraries beside itself.
install() {
    mkdir -p "$1/bin" "$1/lib/softgpu"
    cp "$ddprun" "$1/bin/"
    ln -s "$build/lib/libddprun.so" "$1/lib/"
    ln -s "$build"/lib/softgpu/* "$1/lib/softgpu/"
    ln -s "$2" "$1/lib/libddprun-engine.so"
}
# noticed MUTANT MEMORY COMPRESSION OPTIONS...: the run that the real engine passes fails; a wrong order need not show in each run.
noticed() {
    local mutant=$1 memory=$2 compression=$3 order
    in_turn 3 || return 0
    shift 3
    for order in 7 8 9 10 11 12; do
        SOFTGPU_CHAOS=$order SOFTGPU_LINK=latency_us=2000,gbytes_per_s=1 DDPRUN_MUTANT=$mutant run "$work/mutants/bin/ddprun" -n 3 \
            --bucket-mb 0.02 --timeout 20 --compress "$compression" "$@" "$values" "$memory" mean "$compression"
        [ "$code" -eq 0 ] || break
    done
    check "$mutant is noticed" [ "$code" -eq 1 ]
}
# On a GPU, $ddprun is a script that is not to be copied.
if [ "$(head -c 2 "$ddprun")" != '#!' ]; then
    # ---- without kernels ----
    bare=$work/bare/lib/softgpu/libddprun-kernels.so
    install "$work/bare" "$build/lib/libddprun-engine.so"
    rm "$bare"
    # Means are NCCL's own then, which has the same bits where their number is a power of two.
    ddprun=$work/bare/bin/ddprun reduces "without kernels, three ranks" 3 separate mean none
    reduces "packed, two ranks" 2 separate mean none
    packed=$hash
    ddprun=$work/bare/bin/ddprun reduces "without kernels" 2 separate mean none
    took 0 copies float32
    check "without kernels: the bits of packed" [ "$hash" = "$packed" ]
    # Memory is hashed by copies then: the same hash, and what differs is found all the same.
    identical="parameters bitwise identical on all ranks (hash"
    for launcher in "$ddprun" "$work/bare/bin/ddprun"; do
        works "hashed by $launcher" "$launcher" -n 2 --bucket-mb 0.02 --verify "$ladder" "${options[@]}"
        grep -o "$identical [0-9a-f]*" "$work/stderr" >>"$work/hashes"
    done
    check "hashed on the device and on the host: the same" [ "$(wc -l <"$work/hashes") $(sort -u "$work/hashes" | wc -l)" = "2 1" ]
    for fault in "hidden-write --fault-step 6" "late-write --fault-step 9"; do
        read -r -a words <<<"$fault"
        works "without kernels, ${words[0]}: nothing is averaged before DDP_STEP" "$work/bare/bin/ddprun" -n 2 --bucket-mb 0.02 "$ladder" --steps 12 --fault "${words[@]}"
    done
    run "$work/bare/bin/ddprun" -n 2 --bucket-mb 0.02 "$ladder" --steps 12 --fault drift --fault-rank 1
    failed_with "without kernels, parameters that drift apart" 1 "differs between ranks 0 and 1"
    fails "float16 without kernels" 2 "--compress needs ddprun's own kernels.*leave --compress out" "$work/bare/bin/ddprun" -n 2 --compress fp16 "$ladder"
    echo 'no library' >"$bare"
    ddprun=$work/bare/bin/ddprun reduces "with kernels that do not load" 2 separate mean none
    check "with kernels that do not load: said once" [ "$(grep -c 'cannot open .*; buckets are packed by copies, gradients are averaged at DDP_STEP' "$work/stderr")" -eq 1 ]
    fails "float16 with kernels that do not load" 1 "--compress needs ddprun's own kernels.*cannot open" "$work/bare/bin/ddprun" -n 2 --compress fp16 "$ladder"
fi
# ---- an engine that is broken on purpose (tests/lib/mutant.h) ----
if [ "$(head -c 2 "$ddprun")" != '#!' ] && [ -e "$build/tests/mutants/libddprun-engine.so" ]; then
    install "$work/mutants" "$build/tests/mutants/libddprun-engine.so"
    noticed SCALE_LEFT_OUT flat fp16
    noticed UNPACK_LEFT_OUT separate none
    DDPRUN_MUTANT=HALVES_NOT_WIDENED run "$work/mutants/bin/ddprun" -n 3 --timeout 20 "$halves" flat
    check "HALVES_NOT_WIDENED is noticed" [ "$code" -eq 1 ]
fi
finish
