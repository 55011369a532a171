#!/usr/bin/env bash
# predict.sh BUILD - what `ddprun predict` says of 2 and 4 ranks, from one rank and from a trace, is what they then take; of planted
# losses (small buckets, a slow rank) the first suggestion is the right one, and saves what it says. In time
# that layers and the link are made to take; medians count; what does not hold is measured again, and is not judged where the machine is
# too busy to keep these times.
source "$(dirname "$0")/lib.sh"
paced=$build/tests/trainers/paced
steps=60
shape=(--layers 16 --kib 64 --layer-us 4000 --forward-us 4000 --steps "$steps")
export TMPDIR=$work/tmp XDG_RUNTIME_DIR=$work/none
mkdir "$TMPDIR"

# A link of 51.2 MB/s and 1 ms, and what a ring of 2 or 4 ranks over it takes: 2 (n - 1) latencies, 2 (n - 1) / n times the bytes.
link=51.2MB,1000us
of_2=latency_us=2000,gbytes_per_s=0.0512
of_4=latency_us=6000,gbytes_per_s=0.0341333
cat >"$work/slow" <<'END'
#!/bin/sh
us=4000
[ "$RANK" = 1 ] && us=5500
exec "$@" --layer-us $us
END
chmod +x "$work/slow"

# train NAME RANKS LINK OPTIONS... -- COMMAND...: its trace is $work/NAME; $step is what look() says, and $busy is 1 if it was slow.
train() {
    local name=$1 ranks=$2 model=$3
    rm -rf "${work:?}/$name"
    SOFTGPU_LINK=$model run "$ddprun" --device softgpu -n "$ranks" -q --trace "$work/$name" "${@:4}"
    read -r step slow < <(look "$name" "$model")
    busy=$((busy + slow))
    [ "$code" -eq 0 ]
}

# look NAME LINK: what a step takes in ms, on the device, of the slowest rank, as the median of the last third; and 1 if the machine was
# busy: without averaging a step is made to take 36 ms (on all ranks but the slow one), an all-reduce what the link says, and the trainer's
# stream sees its end at once.
look() {
    python3 - "$2" "$work/$1"/rank-*.jsonl <<'END'
import json, re, statistics, sys
latency_us, gbytes_per_s = map(float, re.findall(r'=([0-9.]+)', sys.argv[1]))
ranks = [[line for line in map(json.loads, open(path)) if 'released_us' in line] for path in sys.argv[2:]]
ranks = [steps[-(len(steps) // 3):] for steps in ranks]
took = lambda step: step['buckets'][-1]['end_us'] - step['buckets'][-1]['begin_us']
longer = statistics.median(min(map(took, same)) / (latency_us + same[0]['buckets'][-1]['bytes'] / gbytes_per_s / 1000) for same in zip(*ranks))
own = min(statistics.median(-step['interval_us'] for step in steps) for steps in ranks)
step = max(statistics.median(step['released_us'] - step['interval_us'] for step in steps) for steps in ranks)
seen = min(statistics.median(step['released_us'] - max(0, step['buckets'][-1]['end_us']) for step in steps) for steps in ranks)
print(step / 1000, int(own > 39000 or longer > 1.1 or seen > 1000))
END
}

# predicted RANKS: step ms in the table.
predicted() { awk -v ranks="$1" '$1 == ranks && NF == 8 { print $2 }' "$work/stdout"; }

# near FIRST SECOND SLACK: within $share of SECOND and SLACK ms. A tenth holds on a machine with nothing else to do; beside other
# tests, half; and of two runs that are not called busy one may take 4 ms longer than it is made to.
share=${DDPRUN_SOAK:+0.1} of_two_runs=${DDPRUN_SOAK:+1}
near() {
    awk -v a="${1:-0}" -v b="${2:-0}" -v slack="$3" -v share="${share:-0.5}" \
        'BEGIN { d = a - b; exit !(b > 0 && (d < 0 ? -d : d) <= share * b + slack) }'
}

# measured COMMAND...: once more if it does not hold.
measured() {
    busy=0
    "$@" && return
    busy=0
    "$@"
}

# noisy: some row of the last table is not predicted, or cannot be, for the run's steps vary. True of this machine, when it is busy.
noisy() { grep -q 'too noisy' "$work/stdout"; }

# judge NAME FIRST SECOND SLACK: near, or not known.
judge() {
    if [ "$busy" -gt 0 ] && ! near "$2" "$3" "$4"; then
        ok "$1 # not judged: the machine is busy ($2 ms, $3)"
    else
        check "$1 ($2 ms, $3)" near "$2" "$3" "$4"
    fi
}

predictions_hold() {
    run "$ddprun" predict -n 1,2,4 --link "$link" "$paced" "${shape[@]}" || return
    of_one=$(cat "$work/stdout")
    one_2=$(predicted 2) one_4=$(predicted 4)
    near "$(predicted 1)" 36 0 && ! noisy || busy=1
    train four 4 "$of_4" -- "$paced" "${shape[@]}"
    four=$step
    train two 2 "$of_2" -- "$paced" "${shape[@]}"
    two=$step
    run "$ddprun" predict -n 2,4 "$work/two"
    two_2=$(predicted 2) two_4=$(predicted 4)
    noisy && busy=1
    near "$one_2" "$two" 0 && near "$one_4" "$four" 0 && near "$two_2" "$two" 0 && near "$two_4" "$four" 0
}
measured predictions_hold
judge "from one rank: 2 ranks take what was predicted" "$one_2" "$two" 0
judge "from one rank: 4 ranks take what was predicted" "$one_4" "$four" 0
judge "from a trace of 2 ranks: 2 ranks" "$two_2" "$two" 0
judge "from a trace of 2 ranks: 4 ranks" "$two_4" "$four" 0
for words in 'without averaging' 'batch as large as in this run' 'the ready time of each is measured' 'each link 51.2 MB/s and 1000 us' 'buckets are planned'; do
    check "assumptions: $words" grep -q "$words" <<<"$of_one"
done
noisy || check "a trace: a step has a range" awk 'NF == 8 && $1 == 4 { split($8, range, "-"); found = range[1] <= $2 && $2 <= range[2] } END { exit !found }' "$work/stdout"
check "a trace: what an all-reduce costs was measured" grep -q 'all-reduce: measured on 2 ranks' "$work/stdout"
two_was_busy=$busy

# The batch shared out: a rehearsal has each rank's share, and so layers that take a half and a fourth of the time.
sharing_holds() {
    run "$ddprun" predict -n 2,4 --link "$link" "$paced" "${shape[@]}" --batch 64 || return
    cp "$work/stdout" "$work/sharing"
    read -r share_2 share_4 kept_2 < <(awk 'NF == 8 && $1 + 0 > 0 { printf "%s ", $2 }' "$work/stdout")
    train shared_two 2 "$of_2" -- "$paced" "${shape[@]}" --batch 64
    busy=0 shared_two=$step
    grep -q 'too noisy' "$work/sharing" && busy=1
    near "$share_2" "$shared_two" 0 && near "$kept_2" "$two" 0
}
measured sharing_holds
awk -v took="${share_2:-99}" 'BEGIN { exit took >= 30 }' || busy=1 # without averaging it is made to take 18 ms
judge "the batch shared out among 2 ranks" "$share_2" "$shared_two" 0
grep -q 'too noisy' "$work/sharing" || check "... items are known of one call before the loop" awk -v share="$share_4" 'NF == 8 && $1 == 4 && $2 == share { d = $5 - 64000 / share; found = d < 2 && d > -2 } END { exit !found }' "$work/sharing"

# saves NAME PATTERN OPTIONS... -- COMMAND...: predict names PATTERN first, and where it gives a gain, a run without the planted loss is as much shorter.
saves() {
    local name=$1 pattern=$2
    in_turn 3 || return 0
    shift 2
    if [ "$two_was_busy" -gt 0 ]; then planted "$pattern" "$@"; else measured planted "$pattern" "$@"; fi
    if [ "$busy" -gt 0 ] && ! grep -q -e "$pattern" <<<"$first"; then
        ok "$name: the first suggestion # not judged: the machine is busy"
    else
        check "$name: the first suggestion is the right one" grep -q -e "$pattern" <<<"$first"
    fi
    [ "$gain" = "" ] || judge "$name: it saves what it says" "$gain" "$saved" "${of_two_runs:-4}"
}
planted() {
    local pattern=$1
    shift
    busy=$two_was_busy
    train planted 2 "$of_2" "$@"
    run "$ddprun" predict -n 2 "$work/planted"
    first=$(grep -A 2 '^Lost time per step' "$work/stdout" | tail -n 1)
    gain=$(grep -oEm 1 '[0-9.]+ ms' <<<"$first" | head -n 1 | cut -d ' ' -f 1)
    saved=$(awk -v with="$step" -v without="$two" 'BEGIN { print with - without }')
    grep -q -e "$pattern" <<<"$first" && { [ "$gain" = "" ] || near "$gain" "$saved" "${of_two_runs:-4}"; }
}
saves "small buckets" 'leave --bucket-mb out' --bucket-mb 0.001 -- "$paced" "${shape[@]}"
saves "a slow rank" 'look at rank 1' -- "$work/slow" "$paced" "${shape[@]}"
[ "$two_was_busy" -gt 0 ] || check "a run without a planted loss: none of them is suggested" bash -c "! grep -E 'bucket-mb|look at rank' <($(printf '%q ' "$ddprun" predict -n 2 "$work/two"))"

# ---- both scalings ----
# rows: RANKS, step ms, steps/s, items/s, speed-up and efficiency of each row, those with the batch shared out first.
rows() { awk 'NF == 8 && $1 + 0 > 0 { print $1, $2, $4, $5, $6, $7 }' "$work/stdout"; }
# hold FIRST TABLE PROGRAM: rows of a table, 1 or 2, satisfy the awk program, in which a, b are near within what is printed.
hold() {
    rows | sed -n "$(($1 == 1 ? 1 : 4)),$(($1 == 1 ? 3 : 6))p" |
        awk 'function near(a, b) { return a - b <= 0.01 * b + 0.02 && b - a <= 0.01 * b + 0.02 } '"!($2)"' { exit wrong = 1 } END { exit wrong }'
}
quick=(--layers 4 --kib 64 --layer-us 2000 --forward-us 2000 --steps 1000 --batch 48)
# scaled LIST: both tables, again if some row is not predicted.
scaled() {
    local try
    for ((try = 1; try <= 4; try++)); do
        run "$ddprun" predict -n "$1" --steps 40 --link "$link" "$paced" "${quick[@]}"
        noisy || break
    done
}
# holds NAME CONDITION...: not judged where some row is not predicted.
holds() {
    if noisy; then ok "$1 # not judged: the machine is busy"; else check "$@"; fi
}
scaled 1,2,4
holds "a program that shares its batch out: exit code 0" [ "$code" -eq 0 ]
holds "... has two tables" [ "$(rows | awk '{ printf "%s ", $1 }')" = "1 2 4 1 2 4 " ]
holds "... shared out, a step is of 48 items" hold 1 'near($4, 48 * $3)'
holds "... kept, of 48 on each rank" hold 2 'near($4, 48 * $1 * $3)'
holds "... steps a second are those of the step" hold 1 'near($3, 1000 / $2)'
holds "... speed-up is the efficiency of each rank" hold 1 'near($5, $1 * $6)'
holds "... in both" hold 2 'near($5, $1 * $6)'
holds "... a step's range is around it" awk 'NF == 8 && $1 + 0 > 0 { split($8, range, "-"); bad = bad || range[1] > $2 || $2 > range[2] } END { exit bad }' "$work/stdout"
holds "... and none is above what so many ranks can do" awk 'NF == 8 && $1 + 0 > 0 && ($6 > $1 + 0.005 || $7 > 1.0005) { bad = 1 } END { exit bad }' "$work/stdout"
holds "... and it says how many are worth it" grep -Eq '^Weak scaling: the efficiency is (at least 50 % up to [24] ranks|below 50 % in all rows)' "$work/stdout"
check "... each share was rehearsed, once" [ "$(grep -c 'predict: runs the program for\|the share of the batch for [24] ranks' "$work/stderr")" -eq 3 ]
scaled 2,64
check "more ranks than items: a line says so" grep -q '^ *64 *not predicted: the batch has fewer items' "$work/stdout"
holds "more ranks than items share nothing out" [ "$(rows | awk '{ printf "%s ", $1 }')" = "2 2 64 " ]
printf '#!/bin/sh\nmkdir "$0.once" 2>/dev/null && exec "$@" --steps 3\nexec "$@"\n' >"$work/shy"
chmod +x "$work/shy"
run "$ddprun" -q --device softgpu predict -n 2 --steps 40 --link "$link" "$work/shy" "$ladder" --layers 4 --width 32 --batch 48
holds "a first rehearsal in which no step counts is made once more" [ "$code" -eq 0 ]
cat >"$work/share.py" <<'END'
import ddprun
print(ddprun.shard(50))
END
for shares in 1:0,50 4:0,13 50:0,1; do
    run env _DDPRUN_REHEARSAL="${shares%:*}" PYTHONPATH="$(dirname "$0")/../../interpose/python" "$ddprun" -q --device softgpu -n 1 python3 "$work/share.py"
    check "a rehearsal of ${shares%:*} shares" grep -qx "(${shares#*:})" <(tr -d ' ' <"$work/stdout")
done

# Of a run whose steps become five times as long, nothing is said but that.
mkdir "$work/varies"
for rank in 0 1; do
    python3 - "$work/two/rank-$rank.jsonl" >"$work/varies/rank-$rank.jsonl" <<'END'
import json, sys
for line in map(json.loads, open(sys.argv[1])):
    if line.get('step', 0) > 45:
        line['interval_us'] *= 5
    print(json.dumps(line, separators=(',', ':')))
END
done
works "a run whose steps vary" "$ddprun" predict -n 2,4 "$work/varies"
check "... it is too noisy to predict" [ "$(grep -c '^ *4 *too noisy to predict: ' "$work/stdout")" -eq 1 ]
check "... and what its own ranks took is said" [ -n "$(predicted 2)" ]
run "$ddprun" predict -n 4 "$work/varies"
check "... if nothing else is asked for: exit code 1" [ "$code" -eq 1 ]
check "... and why" grep -q '^ddprun: no step time was predicted' "$work/stderr"
check "... and one empty line before the assumptions" cmp <(cat -s "$work/stdout") "$work/stdout"
check "... and 4 ranks are not worth it" bash -c "! grep -q 'up to 4 ranks' '$work/stdout'"

# ---- what cannot be predicted ----
refused() { # NAME CODE MESSAGE WORDS...
    fails "$1" "$2" "$3" "$ddprun" -q "${@:4}"
    check "$1: no table" [ ! -s "$work/stdout" ]
}
for list in 0 2,0 '' ',' '2,,4' -1 2x 1000001; do
    refused "-n '$list'" 2 'is not a list of at most 64 numbers of ranks' predict -n "$list" "$paced"
done
for bad in '' 100 100Gbit '100Gbit,' 5us,100Gbit 100Gbit,5 100Gbit,-5us 0Gbit,5us 100gbit,5us '100Gbit,5us,' 1e3Gbit,5us nanGB,5us .5GB,5us; do
    refused "--link '$bad'" 2 'is not BANDWIDTH,LATENCY, in --link' predict --link "$bad" "$paced"
done
refused "no program" 2 'no program given, after predict' predict -n 2
refused "an unknown option" 2 'unknown option --what of predict' predict --what "$paced"
refused "--dry-run" 2 '--dry-run and predict contradict' --dry-run predict "$paced"
PMIX_RANK=0 PMIX_NAMESPACE=x refused "under another launcher" 2 'ddprun predict starts its own ranks, but another launcher' predict "$paced"
refused "-n before predict" 2 '-n before predict' -n 4 predict "$paced"
refused "a program without steps" 1 'cannot be measured: the run has no steps' predict --link "$link" "$paced" --steps 0
refused "a program with few steps" 1 'cannot be measured: the run has too few steps' predict --link "$link" "$paced" --steps 3
refused "a program that is not there" 127 'cannot be run on 1 rank' predict --link "$link" "$work/nothing"
run "$ddprun" -q predict "$paced" --what
check "a program that fails: exit code 1" [ "$code" -eq 1 ]
check "... its last words are shown" grep -q 'paced: --what is no option' "$work/stderr"
check "... and how it ended" grep -q '^ddprun: the program cannot be run on 2 ranks: .*exit code 2' "$work/stderr"
refused "options that contradict each other" 1 'cannot be run on 2 ranks: .*--gpus' --gpus 0 predict "$paced"
run "$ddprun" predict -n 2,4 "$paced" --layers 4 --kib 4 --layer-us 500 --forward-us 500 --steps 1000 --batch 48
check "without a link, and less than 256 KiB: exit code 1" [ "$code" -eq 1 ]
check "... after the first run" [ "$(grep -c 'predict: runs' "$work/stderr")" -eq 1 ]
check "... and why" grep -q 'no time of an all-reduce is known' "$work/stderr"
refused "a folder without a trace" 1 'no trace in' predict "$TMPDIR"
grep -v '"step"' "$work/two/rank-0.jsonl" >"$TMPDIR/rank-0.jsonl"
refused "a trace without steps" 1 'has no steps' predict "$TMPDIR"
rm "$TMPDIR/rank-0.jsonl"
mkdir "$work/alone"
SOFTGPU_LINK=$of_2 run env _DDPRUN_REHEARSAL=1 "$ddprun" -q -n 1 --trace "$work/alone" "$paced" "${shape[@]}" --steps 30
succeeded "a rehearsal trains as one rank does"
refused "a trace of one rank, without a link" 1 'give --link' predict -n 4 "$work/alone"
works "--help" "$ddprun" predict --help
check "nothing is left behind" [ -z "$(ls -A "$TMPDIR")" ]
finish
