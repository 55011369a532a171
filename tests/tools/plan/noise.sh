#!/usr/bin/env bash
# noise.sh BUILD [PATTERN] - a program whose sums differ in their last bits from run to run (noise.cu, SOFTGPU_UNRULY), by plan: proofs
# hold it to the noise of one process, it trains to the weights of its oracle, and a mistake is refused. Where the device adds up in one
# order, proofs compare bits. Ordinarily two seeds, and one of three habits that clip or scale in like ways
# (in_turn); with DDPRUN_SOAK=1 all, by ten seeds, which say the same words. PATTERN: only habits that match it.
source "$(dirname "$0")/../../end_to_end/lib.sh"
pattern=${2:-.}
watch_leftovers
program=$build/tests/tools/plan/noise
seeds='1 2'
[ "${DDPRUN_SOAK:-0}" -ne 1 ] || seeds='1 2 3 4 5 6 7 8 9 10'
cd "$work" || exit 1
export LC_ALL=C

wanted() { grep -qE -- "$pattern" <<<"$1"; }
# unruly SEED COMMAND...: as run.
unruly() { SOFTGPU_UNRULY=$1 run "${@:2}"; }
# proofs HABIT BY: what scout says of them, into words; by two seeds or ten.
proofs() {
    for seed in $seeds; do
        unruly "$seed" "$ddprun" -q --device softgpu scout --by "$2" --prove --json "$1.$2.json" "$program" "$1"
        grep -h '^proof (' stdout | sed -E 's/within [0-9.e-]+ of/within X of/' >"words.$seed"
        check "$1 by $2: seed $seed says what seed 1 says" cmp words.1 "words.$seed"
    done
    shown=$work/words.1
}
# near FILE OTHER: whether all weights are as near as rounding brings them.
near() {
    python3 -IS - "$@" <<'PYTHON'
import array, math, sys
mine, other = (array.array('f', open(path, 'rb').read()) for path in sys.argv[1:])
apart = math.sqrt(sum((a - b) ** 2 for a, b in zip(mine, other)) / sum(b * b for b in other))
sys.exit(len(mine) != len(other) or not apart < 1e-6)
PYTHON
}

# trains HABIT BY NAME: `scout` proves it, and ranks come near the oracle, which makes one update of two batches.
trains() {
    local habit=$1 by=$2 kernel=$3
    wanted "$habit" || return 0
    proofs "$habit" "$by"
    check "$habit by $by: (d) passes, up to noise" grep -q "^proof (d): passed: .* of them up to the noise of one process: the same launch of $kernel twice gives different bits" words.1
    run "$program" "$habit" --steps 60 --oracle 2 --save oracle.weights
    for seed in $seeds; do
        rm -f mine.weights
        unruly "$seed" "$ddprun" -n 2 --device softgpu --share-gpu --timeout 60 --plan "$habit.$by.json" "$program" "$habit" --steps 60 --save mine.weights
        shown=$work/stderr
        check "$habit by $by, seed $seed: trains" test "$code" -eq 0
        check "$habit by $by, seed $seed: to the weights of its oracle" near mine.weights oracle.weights
    done
}
# refused HABIT PATTERN: by gradients and by state, by any seed.
refused() {
    wanted "$1" || return 0
    local by
    for by in gradients state; do
        proofs "$1" "$by"
        check "$1 by $by: is refused" grep -qE "^proof \((d|complete)\): failed: $2|^proof \((d|complete)\): not possible here: $2" words.1
    done
}
# caught HABIT: by a plan by gradients that is not proved, `ddprun check` says different, and the first comparisons end the job.
caught() {
    wanted "$1" || return 0
    unruly 1 "$ddprun" check -q -n 2 --device softgpu --share-gpu --timeout 60 --plan "$1.gradients.json" --unproved "$program" "$1"
    shown=$work/stdout
    check "$1: check says different" grep -q '^different: ' stdout
    unruly 2 "$ddprun" -n 2 --device softgpu --share-gpu --timeout 60 --plan "$1.gradients.json" --unproved "$program" "$1" --steps 120
    shown=$work/stderr
    check "$1: the job ends" test "$code" -eq 1
    check "$1: by name" grep -q 'a2\[0:4000\].* differs between ranks' stderr
}
# mistaken HABIT BY NAME SENTENCE CODE: the plan after CODE (python) with a hash that is right, on an unruly device.
mistaken() {
    wanted "$1" || return 0
    python3 -IS - "$1.$2.json" "$5" <<'PYTHON'
import json, sys
plan = json.load(open(sys.argv[1]))
turns = plan['turns']
memory, operations = turns['memory'], turns['operations']
gradients, state = ([item for item in memory if item['role'] == role] for role in ('gradient', 'state by change'))
exec(sys.argv[2])
json.dump(plan, open('mistaken.json', 'w'))
PYTHON
    "$build/tests/tools/scout/reseal" mistaken.json
    unruly 1 "$ddprun" check -q -n 2 --device softgpu --share-gpu --timeout 60 --plan mistaken.json "$program" "$1"
    report "$1 by $2, $3: is refused" "$(grep -qE "^(different|not comparable): proof \((d|complete)\) of the plan .*($4)" stdout || cat stdout stderr)"
}

apart='differs from one process that computes all turns'
trains gradients gradients backward
mistaken gradients gradients 'a gradient without its last element' "$apart" 'gradients[0]["end"] -= 4'
trains gradients state backward
mistaken gradients state 'a tensor left out' 'misses memory that persists' 'memory.remove(state[1])'
mistaken gradients state 'one element left out' 'misses memory that persists' 'state[0]["end"] -= 4'
mistaken gradients state 'state called constant' 'is constant, but it changed' 'state[0].update(role="unwritten", type=0)'
if wanted gradients; then
    unruly 1 "$ddprun" check -q -n 2 --device softgpu --share-gpu --timeout 60 --plan gradients.state.json "$program" gradients
    shown=$work/stdout
    check "gradients by state: check says equal, within noise" grep -q '^equal: ' stdout
fi
if wanted steep; then
    proofs steep state
    check "steep: noise that grows from step to step is that of one step" grep -q '^proof (d): passed: ' words.1
fi
trains clip gradients norm
if wanted clip; then
    shown=$work/stderr
    check "clip: ranks differ by rounding" grep -q 'state equal on all ranks up to rounding' stderr
fi
for habit in clip-host clip-rate clip-gradients; do
    [ "$pattern" = . ] && ! in_turn 3 || trains $habit gradients norm
done
for habit in scaled scaled-more scaled-clip; do
    [ "$pattern" = . ] && ! in_turn 3 && continue
    refused $habit ".*$apart"
    caught $habit
done
refused carried 'what the program sends to the device depends on what it read from the device in the step before'
refused much '.* is too noisy to prove: the same launch of backward twice gives different bits'

# Few threads often add up in one order by chance. Noise that shows first where an input is changed is no effect of that input.
if wanted factors; then
    for seed in $seeds 3 4 2:1172457197; do # the last: 8 repetitions of a launch have the same bits
        unruly "$seed" "$ddprun" -q --device softgpu scout -v "$build/tests/tools/scout/public_nets" factors
        shown=$work/stderr
        check "factors: seed $seed finds what is annotated" grep -q '^annotations: ' stdout
    done
fi

if wanted gradients; then
    run "$ddprun" -q --device softgpu scout --prove "$program" gradients
    shown=$work/stdout
    check "in one order: bits are compared" grep -q '^proof (d): passed: .* have the same [0-9]* bytes after each of 3 rounds; so has one process' stdout
fi
finish
