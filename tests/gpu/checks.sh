# shellcheck shell=bash disable=SC2154,SC2034 # variables are of first.sh and commands.sh
# checks.sh - the checks of first.sh: a function each, of the same name. Sourced by first.sh; several.sh has those of NCCL and of several GPUs.

# Before all else; false: no program gets a GPU.
driver() {
    run 60 "$programs/probe_static" driver
    expect_success "the driver makes a context" "yes" "$(cat "$log/stdout")"
}

nccl_log=INIT,ENV,GRAPH,TUNING,REG,NVLS # what its own log is to say

exit_order() {
    local name
    for name in ladder ladder_static digits digits_static; do
        case $name in
        digits*) ddprun 60 1 "$programs/$name" --data "$data/digits.csv" --batch 64 --steps 20 ;;
        *) ddprun 60 1 "$programs/$name" --steps 12 ;;
        esac
        expect_success "one rank, $name: starts and ends" "exit code 0"
    done
    local -x NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=$nccl_log NCCL_DEBUG_FILE=$report/machine/nccl.%p.txt
    ddprun 60 2 "$programs/ladder_static" --steps 12
    report_condition "NCCL" "$(sed -n 's/^  "nccl_version": "\(.*\)",$/\1/p' "$log/summary.json" 2>/dev/null)"
    expect_success "two ranks: start and end (NCCL's own log: machine/nccl.*.txt)" "exit code 0"
}

probe() { # WHAT...
    run 60 "$programs/probe_static" "$@"
    rows "probe $*"
}

bandwidth() {
    local size=(512 20) # many times the caches
    [ "$rehearse" -eq 0 ] || size=(1 1)
    run 120 "$build/tests/gpu/bandwidth" "$kernels" "$state_kernels" "${size[@]}"
    rows "bandwidth of ddprun's kernels"
}

handles() {
    local which
    for which in 0 1 2 3; do
        probe handle "$which"
    done
}

arithmetic() {
    local size=()
    [ "$rehearse" -eq 0 ] || size=(short)
    run 60 "$programs/arithmetic_static" "${size[@]}"
    rows arithmetic
}

overlap() { overlap_of 2; }

overlap_of() { # RANKS
    local ranks=$1 size=(--width 256 --batch 256 --steps 60) lines early buckets exposed
    [ "$rehearse" -eq 0 ] || size=(--width 64 --batch 64 --steps 20)
    [ "$rehearse" -eq 0 ] || local -x SOFTGPU_LINK=latency_us=300,gbytes_per_s=1
    ddprun 120 "$ranks" --bucket-mb 0.02 --trace TRACE "$programs/ladder_static" --layers 12 "${size[@]}"
    expect_success "$ranks ranks, small buckets: end" "exit code 0"
    exposed=$(summary exposed_ms)
    lines=$(grep '^{"step":' "$log/trace/rank-0.jsonl" 2>/dev/null | tail -n 10)
    buckets=$(grep -o '"begin_us":' <<<"$lines" | wc -l)
    early=$(grep -o '"begin_us":-' <<<"$lines" | wc -l)
    report_row "overlap by events, $ranks ranks: buckets that begin before backward ends, in the last 10 steps" "most of them" "$early of $buckets" \
        "$([ "$early" -gt 0 ] && echo ok || echo differs)"
    ddprun 120 "$ranks" --bucket-mb 0.02 --no-overlap "$programs/ladder_static" --layers 12 "${size[@]}"
    report_row "exposed communication of a step, $ranks ranks, overlapped" "less than without: $(summary exposed_ms) ms" "$exposed ms" measured
    CUDA_DEVICE_MAX_CONNECTIONS=1 ddprun 120 "$ranks" --bucket-mb 0.02 "$programs/ladder_static" --layers 12 "${size[@]}"
    report_row "exposed communication, $ranks ranks, CUDA_DEVICE_MAX_CONNECTIONS=1" "more than overlapped: $exposed ms" "$(summary exposed_ms) ms" measured
}

tokens() {
    local steps=200 seen
    [ "$rehearse" -eq 0 ] || steps=30
    ddprun 120 2 --bucket-mb 1 "$programs/tokens_static" "$steps" # a fixed size: no trials without overlap
    expect_success "tokens, bfloat16 and images copied before and in backward: ends" "exit code 0"
    seen=$(summary overlapped_steps)
    report_row "... overlapped steps" "at least $((steps * 9 / 10)) of $steps" "${seen:-none}" \
        "$([ "${seen:-0}" -ge $((steps * 9 / 10)) ] && echo ok || echo differs)"
}

sums() {
    local points=200000 off
    [ "$rehearse" -eq 0 ] || points=20000
    run 120 "$programs/kmeans_plain_static" --points "$points" --save "$work/serial"
    expect_success "kmeans, bare: ends" "exit code 0"
    ddprun 120 2 "$programs/kmeans_static" --points "$points" --save "$work/found"
    expect_success "kmeans, DDP_REDUCE on two ranks: ends" "exit code 0"
    off=$(paste -d ' ' "$work/serial" "$work/found" 2>/dev/null |
        awk '{ counts += $1 != $10; for (i = 2; i <= 9; ++i) { d = $i - $(i + 9); d = d < 0 ? -d : d; most = d > most ? d : most } }
             END { printf "%.1e, %d of %d counts differ", most, counts, NR }')
    report_row "... largest difference of a centroid from the bare program's" "at most 1e-4" "$off" \
        "$(awk -v off="$off" 'BEGIN { print off + 0 <= 1e-4 && off ~ / of 32 / ? "ok" : "differs" }')"
}

lt_verify() {
    ddprun 120 2 --verify --bucket-mb 0.003 "$programs/libraries_static" --way lt
    expect_success "cuBLASLt with --verify" "exit code 0" "exit code 0, $(summary overlapped_steps) of $(summary steps) steps overlapped"
}

host_memory() {
    local kind
    for kind in device managed pinned pageable registered mixed; do
        ddprun 60 2 --check-every 1 "$programs/host_memory_static" "$kind" plain
        expect_success "gradients in memory of the host: $kind" "exit code 0: every mean is right"
    done
    ddprun 60 2 "$programs/host_memory_static" managed graph
    expect_success "managed gradients, steps captured" "exit code 0: every mean is right"
}

reduces() {
    local mode
    for mode in types order host; do
        ddprun 60 2 "$programs/reduces_static" "$mode"
        expect_success "DDP_REDUCE: $mode" "exit code 0: every element is right"
    done
    ddprun 120 2 --bucket-mb 0.005 "$programs/reduces_static" training
    expect_success "DDP_REDUCE within backward" "exit code 0: every element is right" \
        "exit code 0, $(summary overlapped_steps) of $(summary steps) steps overlapped"
}

nonfinite() {
    local kind options seen
    for kind in 'packed' 'in place' 'in a graph'; do
        options=(--rank 1 --tensor 2 --step 7 --steps 20)
        [ "$kind" != 'in place' ] || options+=(--flat 1)
        [ "$kind" != 'in a graph' ] || options+=(--graph 2)
        ddprun 60 2 "$programs/sick_static" "${options[@]}"
        seen=$(sed -n '/"nonfinite": {/,/}/s/^ *"\(rank\|step\)": *\([0-9]*\),*$/\1 \2/p' "$log/summary.json" 2>/dev/null | tr '\n' ' ')
        report_row "the first NaN of a gradient, $kind" "rank 1 and step 7" "${seen:-exit code $code: $(why)}" \
            "$([[ $seen == *'rank 1 '* && $seen == *'step 7 '* ]] && echo ok || echo differs)"
    done
}

# Deep products leave partial sums in a workspace of cuBLAS's own.
scout() {
    local shape batch found
    for shape in digits_plain digits_plain_static; do
        for batch in 16 64; do
            run 300 "$build/bin/ddprun" "${device[@]}" scout -v "$programs/$shape" --data "$data/digits.csv" --batch "$batch" --steps 12
            found=$(grep -c '^  gradient ' "$log/stdout")
            expect_success "ddprun scout of $shape, batches of $batch: gradients" "exit code 0" "exit code 0, $found gradients"
        done
    done
}

# Sums by atomicAdd: a job whose ranks differ by rounding trains on.
atomics() {
    ddprun 120 2 "$programs/atomics_clip_static"
    expect_success "an annotated job that clips by an atomic norm: ends" "exit code 0" \
        "exit code 0: $(grep -m 1 '^ddprun: .*all ranks' "$log/stderr")"
}

check() {
    run 300 "$build/bin/ddprun" check "${device[@]}" -n 2 --progress off "$programs/digits_static" --data "$data/digits.csv" --batch 64 --steps 40
    expect_success "ddprun check of digits" "exit code 0: equal" "exit code 0: $(grep -m 1 '^equal' "$log/stdout")"
}

# plan_row NAME PROGRAM WORDS...: by --plan auto: the proof, what a plan by state takes, how long a round takes, and took in the proof
plan_row() {
    local begin=$SECONDS
    ddprun 300 2 --plan auto --slow --yes "${@:2}"
    expect_success "$1 by --plan auto" "exit code 0" "exit code 0 after $((SECONDS - begin)) s: $(grep -oE 'proof \(d\): [a-z]*|each rank takes [0-9]+ bytes|ranks took .*' "$log/stderr" |
        sed 's/^each .* bytes/& besides the program/' | paste -sd ';')"
}

small=(--layers 1 --width 32 --heads 2 --context 16 --batch 4) # of chargpt, for a rehearsal
plan() {
    plan_row digits "$programs/digits_plain" --data "$data/digits.csv" --batch 64 --steps 40
    plan_row "digits, cudart inside," "$programs/digits_plain_static" --data "$data/digits.csv" --batch 64 --steps 40
}

plan_text() {
    local size=(--batch 8 --context 32)
    [ "$rehearse" -eq 0 ] || size=("${small[@]}")
    plan_row chargpt "$programs/chargpt_plain_static" --data "$data/shakespeare.txt" "${size[@]}" --steps 40
}

plan_sums() {
    plan_row "gradients by atomicAdd" "$programs/atomics_static" "$work/model"
}

plan_ends() {
    local way
    for way in gradients tail; do # 41 steps are no whole number of rounds: the last one ends where the device is reset
        plan_row "cudaDeviceReset at the end, $way," "$programs/ends_static" "$way" reset --steps 41 --save "$work/$way"
        run 60 "$programs/ends_static" "$way" reset --steps 41 --save "$work/oracle" --oracle 2
        expect_success "... its oracle" "exit code 0" "largest difference of a saved weight: $(paste "$work/$way" "$work/oracle" |
            awk '{ d = $2 - $4; d = d < 0 ? -d : d; most = d > most ? d : most } END { print most + 0 }')"
    done
}

# A plan knows a call by the frames of its stack, of which it keeps 24.
frames() {
    local name most words size=(--batch 8 --context 32)
    [ "$rehearse" -eq 0 ] || size=("${small[@]}")
    for name in ladder_static chargpt_plain chargpt_plain_static; do
        words=("$programs/$name" --steps 40)
        [ "$name" = ladder_static ] || words+=(--data "$data/shakespeare.txt" "${size[@]}" --eval-every 10 --quiet)
        run 300 "$build/bin/ddprun" "${device[@]}" scout --prove --json "$work/$name.json" "${words[@]}"
        most=$(awk '/"frames":/ { n = 0 } /"offset":/ && ++n > most { most = n } END { print most + 0 }' "$work/$name.json" 2>/dev/null)
        report_row "frames of the deepest call of $name" "at most 23, for none to be lost" "$([ "${most:-0}" -gt 0 ] && echo "$most" || why)" \
            "$([ "${most:-0}" -gt 0 ] && [ "$most" -lt 24 ] && echo ok || echo differs)"
        ddprun 300 2 --plan "$work/$name.json" "${words[@]}" --steps 81
        expect_success "... by its plan, as far as batch 81" "exit code 0"
    done
}

# The memory of the ranks' GPUs while they train, by a plan that was kept.
room() {
    local by size=(--layers 6 --width 256 --heads 8 --context 128 --batch 8) most=()
    [ "$rehearse" -eq 0 ] || size=(--layers 2 --width 32 --heads 2 --context 16 --batch 4)
    for by in gradients state; do
        local words=(--by "$by" "$programs/chargpt_plain_static" --data "$data/shakespeare.txt" "${size[@]}" --steps 40 --quiet)
        plan_row "chargpt of ${size[1]} layers of ${size[3]}, averaged by $by," "${words[@]}"
        memory_of ddprun 300 2 --plan auto --slow --yes "${words[@]}"
        most+=("${memory_used:-0}")
    done
    report_row "memory of the device for two ranks by state, beside by gradients" "two times what a rank takes besides the program" \
        "$((most[1] - most[0])) MiB more: ${most[1]} and ${most[0]} MiB" "$([ -n "$memory_used" ] && echo measured || echo 'not run')"
}

check_every() { check_every_of 2; }

check_every_of() { # RANKS
    local ranks=$1
    local steps=200 rounds=2 size=(--layers 6 --width 256 --heads 8 --context 128 --batch "$((16 * ranks))") every round
    local -A best=()
    [ "$rehearse" -eq 0 ] || steps=6 rounds=1 size=("${small[@]}")
    for ((round = 0; round < rounds; round++)); do
        for every in 0 100 1; do
            ddprun 300 "$ranks" --check-every "$every" "$programs/chargpt_static" --data "$data/shakespeare.txt" "${size[@]}" \
                --steps "$steps" --eval-every 100000 --quiet
            [ "$code" -eq 0 ] || {
                expect_success "chargpt, --check-every $every" "exit code 0"
                return
            }
            best[$every]=$({ echo "${best[$every]:-0}" && summary steps_per_second; } | sort -g | tail -n 1)
        done
    done
    for every in 100 1; do
        report_row "price of --check-every $every, chargpt on $ranks ranks (best of $rounds)" \
            "$([ "$every" -eq 1 ] && echo '-' || echo 'at most 0.5 % of a step')" \
            "$(awk -v a="${best[0]}" -v b="${best[$every]}" 'BEGIN { printf "%.2f ms a step, %+.2f %% of %.2f ms", 1e3 / b, 100 * (a / b - 1), 1e3 / a }')" \
            measured
    done
}

# trained: the seconds that the last run of `thousands` printed
trained() {
    sed -n 's/.*trained for \([0-9.]*\) s.*/\1/p' "$log/stdout"
}

world_of_one() {
    local steps=100 pairs=7 i one bare shape
    [ "$rehearse" -eq 0 ] || steps=3 pairs=2
    for shape in thousands thousands_static; do
        : >"$work/ratios"
        for ((i = 0; i <= pairs; i++)); do
            ddprun 120 1 "$programs/$shape" "$steps"
            one=$(trained)
            run 120 "$programs/$shape" "$steps"
            bare=$(trained)
            [ -n "$one" ] && [ -n "$bare" ] || {
                report_row "world of one against bare, $shape" "1.005" "no times: $(why)" differs
                return
            }
            [ "$i" -eq 0 ] || awk -v a="$one" -v b="$bare" 'BEGIN { print a / b }' >>"$work/ratios" # the first one warms up
        done
        report_row "world of one against bare, $shape: 2,000 launches a step (median of $pairs ratios of times)" "at most 1.005" \
            "$(median <"$work/ratios")" measured
    done
}

launch_cost() {
    local steps=200 how
    [ "$rehearse" -eq 0 ] || steps=20
    for how in bare 1 2; do
        [ "$how" = bare ] && run 120 "$programs/launches_static" "$steps" || ddprun 120 "$how" "$programs/launches_static" "$steps"
        report_row "a launch with 4 pointers outside of gradients, $([ "$how" = bare ] && echo bare || echo "ranks: $how")" \
            "$([ "$how" = 2 ] && echo 'at most 60 instructions more than bare' || echo 'as bare')" \
            "$(sed -n 's/^launch: //p' "$log/stdout")$([ "$code" -eq 0 ] || echo "exit code $code: $(why)")" \
            "$([ "$code" -eq 0 ] && echo measured || echo differs)"
    done
}

all_reduce() { all_reduce_of 2 1 16 64; }

all_reduce_of() { # RANKS MIB...
    local ranks=$1 mib width alone ours
    local sizes=("${@:2}")
    [ "$rehearse" -eq 0 ] || sizes=(1)
    for mib in "${sizes[@]}"; do
        run 120 "$programs/nccl_alone_static" "${gpu_library[libnccl.so.2]}" "$ranks" "$mib"
        alone=$(sed -n 's/^all-reduce: \([0-9.]*\) us/\1/p' "$log/stdout")
        [ -n "$alone" ] || {
            report_row "all-reduce of $mib MiB by NCCL alone, $ranks ranks" "a time" "exit code $code: $(why)" differs
            return
        }
        case $mib in 1) width=512 ;; 16) width=2048 ;; 64) width=4096 ;; 256) width=8192 ;; esac
        ddprun 240 "$ranks" --bucket-mb "$mib" --no-overlap --check-every 0 --trace TRACE "$programs/ladder_static" --layers 2 \
            --width "$width" --batch "$ranks" --steps 24
        [ "$code" -eq 0 ] || {
            expect_success "all-reduce of $mib MiB by ddprun" "exit code 0"
            return
        }
        ours=$(grep '^{"step":' "$log/trace/rank-0.jsonl" | tail -n 20 | grep -o '"begin_us":[-0-9.e+]*,"end_us":[-0-9.e+]*' | tr ':' ',' |
            awk -F , '{ print $4 - $2 }' | median)
        report_row "all-reduce of $mib MiB, $ranks ranks: ddprun beside NCCL alone" "as NCCL alone: $alone us" \
            "$(awk -v a="$alone" -v b="$ours" -v m="$mib" 'BEGIN {
                printf "%.1f us, %.2f GB/s; NCCL alone %.2f GB/s; ratio %.3f", b, m * 1.048576e3 / b, m * 1.048576e3 / a, b / a }')" \
            measured
    done
}

doctor() {
    run 60 "$build/bin/ddprun" doctor
    cp "$log/stdout" "$report/doctor.txt"
    report_row "ddprun doctor (doctor.txt)" "no problem" "exit code $code: $(tail -n 1 "$log/stdout")" measured
}

