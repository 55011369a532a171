#!/usr/bin/env bash
# rare.sh BUILD [FIRST LAST] - random programs (random.cu) in which a few steps are not as the others (random_rare.h), on 2, 3 or 4 ranks, by
# their seeds: averaging during backward gives bit for bit what the same buckets give that are sent at DDP_STEP, in every step and on every
# rank; no job ends, and none waits without end.
#
# Every second program adds as a ring does (SOFTGPU_NCCL_ORDER), by the place in the bucket; where repairs have led to other buckets, the
# program is compared once more, in the order of ranks. Half of them run with delays (SOFTGPU_CHAOS), a third unruly. It counts
# programs that launch buckets early in most steps, and programs with repairs, by the way in which gradients are written once more.
#
# A quarter runs once more with --commit trust: to the same end, or the job ends by the gradient that was written. It counts both.
#
# Ordinarily 8 programs, others in each run; with DDPRUN_SOAK=1, seeds 1 to 2000. Two seeds at a time.
source "$(dirname "$0")/../end_to_end/lib.sh"
limit=120
shapes=(shared static driver)
steps=26
startup=6 # steps until a plan is in force
part=${TESTS_PART:-1}
first=${2:-$((${DDPRUN_SOAK:-0} == 1 ? 1 : part * 8 % 2000 + 1))}
last=${3:-$((${DDPRUN_SOAK:-0} == 1 ? 2000 : first + 7))}

# train SEED FOLDER SETTING...: the program on its ranks; parameters after every step go into the folder.
train() {
    local seed=$1 folder=$2 shape=${shapes[$1 % 3]} world=$((2 + $1 / 3 % 3))
    shift 2
    local settings=("$@" MATRIX_RARE=1) without=
    # Where two threads launch, the order in which gradients are complete, and so the plan, is another one in each run.
    [ $((seed % 2)) -eq 0 ] || { settings+=("SOFTGPU_NCCL_ORDER=$order") && without=threads; }
    [ $((seed % 4)) -ge 2 ] || settings+=("SOFTGPU_CHAOS=$seed" "SOFTGPU_LINK=latency_us=200,gbytes_per_s=1")
    [ $((seed % 3)) -ne 2 ] || settings+=("SOFTGPU_UNRULY=$seed:1")
    # Programs whose steps differ all the time launch little: most are steadier.
    [ $((seed % 5)) -eq 0 ] || without+=" shuffled left-out passes moves declared groups log look"
    settings+=("MATRIX_WITHOUT=$without")
    mkdir -p "$folder"
    timeout -k 2 "$(patient "$limit")" env "${settings[@]}" "$ddprun" -n "$world" --commit "${commit:-wait}" --bucket-mb "$((seed % 4 + 1))e-3" --timeout 60 \
        --check-every 7 --summary-json "$folder/summary.json" "$build/tests/matrix/random_$shape" --seed "$seed" --steps "$steps" \
        --save "$folder/rank-%d" </dev/null >"$folder/stdout" 2>"$folder/stderr"
}

# differs SEED: trains in both ways, adding in `order`; prints why the program is not right, or nothing.
differs() {
    local seed=$1 here=$work/$1 rank world=$((2 + $1 / 3 % 3))
    train "$seed" "$here/step" DDPRUN_TEST_AT_STEP=1 || { echo "at DDP_STEP: $(grep '^ddprun' "$here/step/stderr" | head -n 1)"; return; }
    train "$seed" "$here/early" MATRIX_DESCRIBE=1 || { echo "early: exit code $?: $(grep '^ddprun' "$here/early/stderr" | head -n 1)"; return; }
    for ((rank = 0; rank < world; rank++)); do
        cmp -s "$here/step/rank-$rank" "$here/early/rank-$rank" || echo "$world ranks: rank $rank differs from the same buckets sent at DDP_STEP"
    done
}

# trust_differs SEED: trains on trust, adding in `order`; prints why that is not right, or nothing.
trust_differs() {
    local seed=$1 here=$work/$1 rank world=$((2 + $1 / 3 % 3)) commit=trust ended=0
    train "$seed" "$here/trust" DDPRUN_TEST_TRUST_AFTER=2 || ended=$?
    python3 -IS -c 'import json, sys; print(json.load(open(sys.argv[1]))["trusted_steps"], sys.argv[2])' "$here/trust/summary.json" "$ended" >"$work/$seed.trust"
    if [ "$ended" -ne 0 ]; then
        grep -q '^ddprun: .* --commit trust cannot repair that' "$here/trust/stderr" ||
            echo "on trust: exit code $ended: $(grep '^ddprun' "$here/trust/stderr" | head -n 1)"
        return
    fi
    for ((rank = 0; rank < world; rank++)); do
        cmp -s "$here/step/rank-$rank" "$here/trust/rank-$rank" || echo "on trust: $world ranks: rank $rank differs from the same buckets sent at DDP_STEP"
    done
}

# A gradient that was stale in 3 steps waits for DDP_STEP from then on, in another bucket.
has_other_buckets() {
    python3 -IS -c '
import json, sys
sys.exit(json.load(open(sys.argv[1]))["repaired_steps"] < 3)' "$work/$1/early/summary.json"
}

# Why the program is not right, or nothing.
why_not() {
    local seed=$1 order=ring why
    why=$(differs "$seed")
    [[ $why != *differs* ]] || ! has_other_buckets "$seed" || { order=ranks && why=$(differs "$seed"); }
    [ -n "$why" ] || [ $((seed % 4)) -ne 0 ] || why=$(trust_differs "$seed")
    printf '%s' "$why"
}

one() {
    why_not "$1" | head -n 3 | tr '\n' ' ' >"$work/$1.why"
    grep -oE '^rare: [a-z]+' "$work/$1/early/stderr" 2>/dev/null | head -n 1 | cut -d ' ' -f 2 >"$work/$1.writer"
    python3 -IS -c '
import json, sys
try:
    end = json.load(open(sys.argv[1]))
    print(end["overlapped_steps"], end["repaired_steps"])
except Exception:
    print(0, 0)' "$work/$1/early/summary.json" >"$work/$1.counts"
    rm -rf "${work:?}/$1"
}

mostly=0 repaired=0 trusted=0 refused=0
declare -A by_writer=()
for ((seed = first; seed <= last; seed += 2)); do
    one "$seed" &
    [ $((seed + 1)) -gt "$last" ] || one $((seed + 1))
    wait
    for k in "$seed" $((seed + 1)); do
        [ "$k" -le "$last" ] || continue
        if [ -s "$work/$k.why" ]; then
            not_ok "seed $k" "$(cat "$work/$k.why") - again: bash tests/matrix/rare.sh $1 $k $k"
        else
            ok "seed $k"
        fi
        read -r early again <"$work/$k.counts"
        writer=$(cat "$work/$k.writer")
        if [ -e "$work/$k.trust" ]; then
            read -r by_trust ended <"$work/$k.trust"
            [ "$by_trust" -eq 0 ] || trusted=$((trusted + 1))
            [ "$ended" -eq 0 ] || refused=$((refused + 1))
        fi
        [ $((early * 10)) -lt $(((steps - startup) * 6)) ] || mostly=$((mostly + 1))
        [ "$again" -eq 0 ] || { repaired=$((repaired + 1)); by_writer[$writer]=$((${by_writer[$writer]:-0} + 1)); }
    done
    [ $((seed % 100)) -ne 1 ] || printf '# seeds %d to %d of %d, %d failures, %d mostly early, %d repaired\n' "$first" "$seed" "$last" "$failures" "$mostly" "$repaired"
done
count=$((last - first + 1))
printf '# %d programs, %d launch early in 60 %% of their steps, %d repaired:' "$count" "$mostly" "$repaired"
for writer in "${!by_writer[@]}"; do printf ' %s %d' "$writer" "${by_writer[$writer]}"; done
echo
printf '# on trust: %d programs had such steps, %d were ended by one\n' "$trusted" "$refused"
if [ "$count" -ge 2000 ]; then
    check "80 % launch early in most steps" [ $((mostly * 10)) -ge $((count * 8)) ]
    check "300 programs have a repair" [ "$repaired" -ge 300 ]
    check "300 programs are trusted" [ "$trusted" -ge 300 ]
    check "100 programs are ended on trust" [ "$refused" -ge 100 ]
    for writer in kernel copy zeros product hidden thread aside; do
        check "20 programs have a repair after a write by: $writer" [ "${by_writer[$writer]:-0}" -ge 20 ]
    done
fi
finish
