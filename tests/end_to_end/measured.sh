#!/usr/bin/env bash
# measured.sh BUILD - buckets come from measured times: a plan of several buckets takes effect, promises what the trace then
# shows beside it, and every mean stays right; the cost of an all-reduce is measured once and kept, and a kept file that is
# broken, foreign or of another version is ignored with one line; --bucket-mb and --no-cost-cache turn off what they say.
# shellcheck source=tests/end_to_end/lib.sh
source "$(dirname "$0")/lib.sh"
export SOFTGPU_LINK=latency_us=200,gbytes_per_s=0.2
paced=$build/tests/trainers/paced
shape=(--layers 12 --kib 256 --layer-us 1500 --forward-us 500)
cache=$XDG_CACHE_HOME/ddprun

kept() { # the one file there
    local files=("$cache"/all-reduce-*.txt)
    [ "${#files[@]}" -eq 1 ] && printf '%s\n' "${files[0]}"
}

run "$ddprun" -n 2 --trace "$work/measured" "$paced" "${shape[@]}" --steps 70
succeeded 'measured buckets: all means are right'
for rank in 0 1; do
    check "rank $rank: a measured plan takes effect" grep -q '"predicted_us":' "$work/measured/rank-$rank.jsonl"
    check "rank $rank: no plan is promised before" bash -c "! grep '^{.step.:' '$work/measured/rank-$rank.jsonl' | head -n 8 | grep -q predicted_us"
    check "rank $rank: it has several buckets" grep -q '"predicted_us":.*"bucket":1,"early":true' "$work/measured/rank-$rank.jsonl"
done
run "$ddprun" -n 2 --trace "$work/declared" "$paced" "${shape[@]}" --steps 70 --declares 1
succeeded 'gradients that are declared ready: all means are right'
check 'declared ready: the measured plan has several buckets' grep -q '"predicted_us":.*"bucket":1,"early":true' "$work/declared/rank-0.jsonl"
check 'the summary says how long steps waited' grep -qE '^ddprun: exposed communication: [0-9.]+ ms per step \(median of [0-9]+ of steps [0-9]+ to [0-9]+\); lower bound for any bucket layout: [0-9.]+ ms' "$work/stderr"
check 'the cost of an all-reduce is kept' [ -s "$(kept)" ]

# Changed by hand, so that a run that believes the file shows it.
file=$(kept)
awk '$1 == 4096 { $2 += 1 } { print }' "$file" >"$work/kept"
seal_costs "$work/kept"
cp "$work/kept" "$file"
run "$ddprun" -n 2 "$paced" "${shape[@]}" --steps 12
succeeded 'a kept cost is used'
check 'and not measured again' cmp <(grep '^[0-9]' "$work/kept") <(grep '^[0-9]' "$file")

# A network that is no longer what it was.
for times in 0.1 10; do
    awk -v times=$times '/^[0-9]/ { $2 = int($2 * times) } { print }' "$work/kept" >"$file"
    seal_costs "$file"
    cp "$file" "$work/other"
    run "$ddprun" -n 2 "$paced" "${shape[@]}" --steps 12
    failed_with "a kept cost of $times times what it is: one line, and the run ends well" 0 'an all-reduce of [0-9]* KiB takes .* measured again'
    check "a kept cost of $times times what it is: measured again" bash -c "! cmp -s '$work/other' '$file'"
done

n=0
for broken in '' 'end' "$(head -n 1 "$work/kept")" "$(printf '%20000s' x)"; do
    n=$((n + 1))
    printf '%s' "$broken" >"$file"
    run "$ddprun" -n 2 "$paced" "${shape[@]}" --steps 2
    failed_with "broken file $n: one line, and the run ends well" 0 'not a measurement of this machine'
    check "broken file $n: measured again" grep -q '^ddprun all-reduce cost, version 5: host ' "$file"
done
for change in 's/version 5/version 9/' 's/: host /: another host /' 's/^4096 /1e3 /' 's/^4096 /9999999999 /'; do
    sed -E "$change" "$work/kept" >"$file"
    seal_costs "$file"
    run "$ddprun" -n 2 "$paced" "${shape[@]}" --steps 2
    failed_with "kept file after $change: ignored" 0 'not a measurement of this machine'
done
for change in 's/^4096 /4095 /' '/^end/d'; do
    sed -E "$change" "$work/kept" >"$file"
    run "$ddprun" -n 2 "$paced" "${shape[@]}" --steps 2
    failed_with "kept file after $change, its hash as it was: ignored" 0 'not a measurement of this machine'
done
for kind in link writable fifo; do
    rm -f "$file"
    case $kind in
    link) ln -s "$work/kept" "$file" ;;
    writable) cp "$work/kept" "$file" && chmod 666 "$file" ;;
    fifo) mkfifo "$file" ;;
    esac
    run "$ddprun" -n 2 "$paced" "${shape[@]}" --steps 2
    failed_with "a kept file that is a $kind: ignored" 0 'not a measurement of this machine'
    check "a kept file that is a $kind: replaced" [ -f "$file" -a ! -L "$file" -a "$(stat -c %a "$file")" = 600 ]
done

rm -rf "$XDG_CACHE_HOME"
run "$ddprun" -n 2 --no-cost-cache "$paced" "${shape[@]}" --steps 2
succeeded 'without a cache: ends well'
check 'without a cache: nothing is kept' [ ! -e "$cache" ]
mkdir -p "$XDG_CACHE_HOME"
: >"$cache" # a file in the folder's place
run "$ddprun" -n 2 "$paced" "${shape[@]}" --steps 2
succeeded 'no folder for a cache: ends well'
rm -rf "$XDG_CACHE_HOME"

run "$ddprun" -n 2 --bucket-mb 0.5 --trace "$work/fixed" "$paced" "${shape[@]}" --steps 24
succeeded 'fixed buckets: all means are right'
check 'fixed buckets: nothing is measured for a plan' bash -c "! grep -q predicted_us '$work/fixed/rank-0.jsonl' && [ ! -e '$cache' ]"
run "$ddprun" -n 2 --bucket-mb 1 --trace "$work/pieces" "$paced" --layers 4 --kib 2560 --layer-us 500 --steps 12
succeeded 'gradients in pieces of 1 MiB: all means are right'
check 'gradients in pieces: five buckets and the small ones' grep -q '"bucket":5,"early":true' "$work/pieces/rank-1.jsonl"

# Memory that is freed between the first bucket and DDP_STEP is counted; behind DDP_STEP, and before there is a plan, it is not.
run "$ddprun" -v -n 2 --bucket-mb 0.02 --summary-json "$work/amid.json" "$build/tests/trainers/ladder" --steps 12 --fault scratch
succeeded 'memory freed in backward'
check 'memory freed in backward: the summary has it' awk '/"frees_in_backward"/ { n = $2 + 0 } END { exit !(n >= 6 && n <= 10) }' "$work/amid.json"
check 'memory freed in backward: so has -v' grep -Eq '^ddprun: rank [01]: ([6-9]|10) frees of memory and 0 loads of device code in 12 steps ' "$work/stderr"
run "$ddprun" -v -n 2 --bucket-mb 0.02 --summary-json "$work/amid.json" "$build/tests/trainers/ladder" --steps 12
check 'none is freed: nothing is said' bash -c "grep -q '\"frees_in_backward\": 0' '$work/amid.json' && ! grep -q 'frees of memory' '$work/stderr'"

# Three times as slow in the middle of the run: reviews continue, nothing breaks, and all ranks agree.
run "$ddprun" -n 4 "$paced" --layers 6 --kib 256 --layer-us 200 --forward-us 0 --steps 140 --slower-from 70
succeeded 'slower from step 70 on, four ranks: all means are right'
finish
