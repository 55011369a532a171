#!/usr/bin/env bash
# plan.sh BUILD [PATTERN] - a soak: trainers of the corpus (corpus.sh; its series plan and plan2) by `ddprun --plan auto` on 2 ranks, one for
# each rule that was found by them: the saved parameters are those of the oracle of the way that is taken (but by "far", whose oracle counts
# updates where the program counts batches), or the program is refused, by this reason. PATTERN: only names that match it.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/corpus.sh"
pattern=${2:-.}
# program | way, or refused | the rule; of a refusal: its words
rows='momentum_clip | state | a step begins in front of all that only clears memory for it, wherever the recording begins
mlp_bn | gradients | statistics of batches are averaged
reinforce_walk | refused | what the program sends to the device depends on what it read from the device in the step before
rnn_stateful | refused | ranks cannot take turns by state
lstm_seq | state | as many bytes go to the host as come back, and no proof shows that they depend on them
poisson | state | the kernel gets the address of the loss, which moves in each step
mlp_streams | state | what is only copied ahead is no turn
simclr | gradients | an update of all tensors in one launch, whose struct of pointers no name describes
vae | gradients | all ranks draw all random numbers: a generator may keep states that it seldom writes
attn_heads | gradients | a copy between devices brings no data of the host
matfac | state | a step of one launch, in which no element comes from its own old value alone
plan2/lstm | gradients | a struct of scratch, of which a launch writes one part and reads another
plan2/twostream | gradients | a stream that launches nothing copies a batch ahead, into two buffers in turn
plan2/convadam | gradients, far | indices that are zero, in one struct with floats'
export build held work NVCC_APPEND_FLAGS='-Xcompiler -O0' # optimising takes longer than the runs

# measure PROGRAM: its row, in $work/PROGRAM.row; a program without a folder is of the series plan.
measure() {
    local name=$1 series=plan
    [[ $name != */* ]] || series=${name%/*}
    mkdir -p "$work/$name"
    KEEP=$work/$name RANKS=2 bash "$held/$series/measure.sh" "$build" "${name##*/}" >"$work/$name.row" 2>"$work/$name.said"
}
export -f measure
sed 's/ |.*//' <<<"$rows" | grep -E -e "$pattern" | xargs -P "$(nproc)" -I{} bash -c 'measure "$1"' measure {}
judged=0
while IFS='|' read -r name way rule; do
    name=${name% } way=${way// } rule=${rule# } far=false
    [[ $way != *,far ]] || far=true way=${way%,far}
    [ -e "$work/$name.row" ] || continue
    judged=$((judged + 1))
    read -r _ exit took gradients state _ < <(tail -n 1 "$work/$name.row")
    shown=$work/$name/${name##*/}.err
    if [ "$way" = refused ]; then
        check "$name: refused" test "$exit" -ne 0
        check "$name: by its reason, once" test "$(grep -o "$rule" "$shown" | wc -l)" -eq 1
        check "$name: scouting leaves no file" test "$gradients" = -
        continue
    fi
    distance=$state
    [ "$way" = state ] || distance=$gradients
    check "$name, $rule: trains by $way" test "$exit $took" = "0 $way"
    "$far" || check "$name: to the weights of its oracle ($distance)" awk "BEGIN { exit !(\"$distance\" + 0 < 1e-5 && \"$distance\" ~ /e/) }"
done <<<"$rows"

# Where it goes by gradients, it can by state, too.
if [[ plan2/lstm =~ $pattern ]]; then
    "$build/bin/softgpu-cc" -O2 -g "$held/plan2/lstm.cu" -o "$work/lstm" -lcublas
    works "lstm by state: a struct of scratch is none" "$ddprun" --device softgpu --share-gpu scout --by state --prove "$work/lstm"
    check "... which a proof shows" grep -q 'proof (complete): passed' "$work/stdout"
fi
check "$judged programs are judged" test "$judged" -gt 0
finish
