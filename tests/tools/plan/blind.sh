#!/usr/bin/env bash
# blind.sh BUILD [PATTERN] - the trainers blind/, which were written before any of them was run by a plan, by `ddprun --plan auto`: each trains
# to the weights, and prints the lines, that one process makes which computes the mean over the ranks' batches (TRUTHN, blind/truth.h), or is
# refused by the sentence of its row. Ordinarily one in 4 (TESTS_PART) on 2 ranks; with DDPRUN_SOAK=1 all, on 2 and 3, tame and unruly.
# PATTERN: only rows that match it.
source "$(dirname "$0")/../../end_to_end/lib.sh"
pattern=${2:-.}
programs=$build/tests/tools/plan/blind sources=$(cd "$(dirname "$0")/blind" && pwd)
command -v python3 >/dev/null || skip "no python3, which compares weights here"
ranks=2 moods=('') soak=${DDPRUN_SOAK:-0} number=0
[ "$soak" -eq 0 ] || { ranks='2 3' moods=('' ', unruly'); }

# near FILE OF: whether all weights, of 4 bytes, are those of the other file, but for rounding.
near() {
    python3 -IS -c 'import struct, sys
a, b = (struct.unpack("%df" % (len(it) // 4), it) for it in (open(name, "rb").read() for name in sys.argv[1:]))
largest = max(map(abs, b))
sys.exit(len(a) != len(b) or not all(abs(x - y) <= 2e-6 * largest for x, y in zip(a, b)))' "$1" "$2"
}

# lines FILE OF: whether it has the other's lines, but for the last digit of a number.
lines() {
    python3 -IS -c 'import re, sys
number = re.compile(r"-?[0-9]+\.[0-9]+")
def last_digits(text): return [round(float(it) * 10 ** len(it.split(".")[1])) for it in number.findall(text)]
a, b = (open(name).read() for name in sys.argv[1:])
alike = number.sub("N", a) == number.sub("N", b)
sys.exit(not alike or not all(abs(x - y) <= 1 for x, y in zip(last_digits(a), last_digits(b))))' "$1" "$2"
}

# By a plan, counters of the program advance with each batch; these truths count the updates, which is put right in a copy.
counted() {
    local source=$1.cu
    [ -e "$1.counted" ] && return
    case $1 in
    bigram) sed 's/^ *opt\.step(ps, 3);/&\nelse ++opt.t;/' "$sources/$source" >"$source" ;;
    grad_accum) sed 's/if (truth_step({{grad, kParams}})) {/++adam_t;\n&\n--adam_t;/' "$sources/$source" >"$source" ;;
    node_euler) sed '/if (truth_step/i tick<<<1, 1>>>(st, 0.f);' "$sources/$source" | sed '/if (truth_step/{n;d}' >"$source" ;;
    esac
    check "$1: counters advance with each batch" test "$(cmp "$source" "$sources/$source" | wc -l)" -eq 1
    "$build/bin/softgpu-cc" -Xcompiler -O1 -I"$sources" "$source" -lcublas -lcurand -o "$1.counted"
}

# truth PROGRAM RANKS: into truth.weights and truth.lines.
truth() {
    local program=$programs/$1
    case $1 in
    bigram | grad_accum | node_euler)
        counted "$1"
        program=./$1.counted
        ;;
    esac
    TRUTHN=$2 DUMP=truth.weights "$program" >truth.lines
}

# row PROGRAM RANKS MOOD VERDICT SENTENCE
row() {
    local name="$1, $2 ranks$3" unruly=() wanted=0
    [ -z "$3" ] || unruly=(env SOFTGPU_UNRULY=5)
    [ "$4" != refused ] || wanted=1
    rm -rf weights cache
    run env DUMP=weights XDG_CACHE_HOME="$work/cache" "${unruly[@]}" "$ddprun" -n "$2" --device softgpu --share-gpu --timeout 240 --plan auto --yes --slow \
        "$programs/$1"
    check "$name: exit code $wanted" test "$code" -eq "$wanted"
    if [ -n "$5" ]; then
        check "$name: says so" grep -qE -- "$5" "$work/stderr"
    fi
    [ "$wanted" -eq 0 ] || return 0
    truth "$1" "$2"
    check "$name: weights" near weights truth.weights
    [ "$4" = weights ] || check "$name: lines" lines "$work/stdout" truth.lines
}

watch_leftovers
cd "$work" || exit 1
# `weights`: only these are right; the sentence says of which memory what is printed is rank 0's.
while IFS='|' read -r program verdict sentence; do
    number=$((number + 1))
    [[ $program =~ $pattern ]] || continue
    [ "$soak" -ne 0 ] || [ "$pattern" != . ] || chosen $number 4 || continue
    for count in $ranks; do
        for mood in "${moods[@]}"; do
            row "$program" "$count" "$mood" "$verdict" "$sentence"
        done
    done
done <<'ROWS'
autoenc|weights|managed memory a9, allocated at .*: what the host reads there without a copy is rank 0's value, and not that of each batch
bandit_pg|right|
bigram|right|Its step counters and schedules advance by [23] for each update
gan2d|right|
grad_accum|right|Its step counters and schedules advance by [23] for each update
kmeans_online|right|
linreg_exact|right|
logreg|right|
lstm_sine|right|Its step counters and schedules advance by [23] for each update
matfac|right|
multilabel|right|
node_euler|right|Its step counters and schedules advance by [23] for each update
pinn_fd|refused|nothing stays on the device that is computed from itself and from data
rbm_cd1|refused|data_, 1488 bytes.* is trained, or carried from batch to batch, which its updates do not show: .* give each an allocation
resbn|weights|managed memory a0, allocated at .*: what the host reads there without a copy is rank 0's value, and not that of each batch
spiral_mlp|right|
tiny_cnn|right|
tinyformer|right|
two_tower|right|
w2v|right|
ROWS
check "leaves no process" within 5 none_left
finish
