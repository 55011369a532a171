#!/usr/bin/env bash
# programs.sh BUILD [PATTERN] - each small program of tests/programs shows one verdict of `ddprun check`, lines or a refusal of `ddprun scout`,
# or a way or a refusal of `ddprun --plan auto`, and the tool says so. The programs are compiled here, as a user compiles them.
#
#   check   stdout has the words, and the exit code is 0 (equal), 1 (different) or 3 (not comparable)
#   scout   0: a line of the patch has the words, and ranks of the patched program take turns; 1: the tool says the words
#   plan    the tool says the words; 0: the saved parameters of 2 ranks are those of one process with batches twice as large
#
# With DDPRUN_SOAK=1 each row that trains shows that it can fail, too: a program is edited so that its mistake is gone, or made; a patch
# loses its line; batches of one process are as large as those of a rank. PATTERN: only programs whose names match it.
source "$(dirname "$0")/../end_to_end/lib.sh"
source "$(dirname "$0")/scout/pasted.sh"
sources=$(cd "$(dirname "$0")/../.." && pwd)
pattern=${2:-.}
soak=${DDPRUN_SOAK:-0}

# tool | exit code | program and its words | the tool's words (an extended regular expression) | options of the tool
rows='check | 1 | clip_before_average | `square_sum` .*it reads or changes gradients that are not averaged yet \(argument 2
check | 1 | schedule_counts_samples | `rate` .*, computed from `seen` .*, which is computed from `count`, is .* is passed to `sgd`
check | 1 | sum_divided_by_whole_batch | `cublasSgemm` .*is 1/32 on each rank and in one process, .*: 32 items are the whole batch
check | 1 | gradient_forgotten | `sgd` .*`layer->bias_gradient`.* has no DDP_GRADIENT and feeds a parameter: parameter 2, `layer.bias`
check | 1 | queue_of_own_keys | `enqueue` .*not annotated, and there it writes the rows of the rank.s share alone, .*`push_away` .*reads it
check | 1 | same_items_on_all_ranks | `cudaMemcpy` .*rank 1 copies 768 from byte 0 on, but its share begins at byte 768; the host sets `items`
check | 1 | step_length_of_own_loss | `minus` .*passed to `cublasSaxpy` .*after the host has read a value at .* of the rank.s share alone
check | 3 | partner_of_share | `mix` .*argument 1 .*a row depends on other rows of the share, .*argument 3 .*is 16 on all ranks and 32 in
check | 3 | batch_norm_of_share | `normalise` .*`sums`\) points to a value that `column_sums` .*computes from the rank.s share alone
check | 3 | batch_norm_of_share forward | `normalise_back` .*`error_sums`\) points to a value that `column_sums` .*the rank.s share alone
check | 0 | batch_norm_of_share forward backward | ^equal: 2 ranks
check | 0 | right_accumulation_of_unequal_shares | ^equal: 2 ranks
check | 0 | right_momentum_of_each_rank | ^memory 1 .*argument 2 of sgd .*the rank.s own$ | -v
scout | 0 | layers_of_templates | DDP_STEP\(0\)
scout | 0 | weights_updated_in_backward | DDP_STEP_PARAMETERS\(0\)
scout | 0 | two_groups_of_a_gan | DDP_STEP_GROUP\(1, 0\)
scout | 0 | batch_by_time_steps | DDP_STEP\(0\)
scout | 0 | causal_attention | DDP_STEP\(0\)
scout | 0 | managed_memory_is_counted | DDP_GRADIENT\(ddp_made
scout | 0 | shorter_last_batch | DDP_STEP\(0\)
scout | 0 | update_computes_its_gradient | DDP_STEP_PARAMETERS\(0\)
scout | 1 | hidden_state_is_carried | trained, or carried from batch to batch\? .*gradients are computed from it, and scout sees no gradient of it
plan | 0 | update_computes_its_gradient | the ranks average state and not gradients: .*which also computes the inputs of its gradient
plan | 0 | batch_norm_by_gradients | statistics of batches, averaged over the ranks:
plan | 0 | batch_copied_ahead | averaged over 2 ranks, before update_all at
plan | 0 | batch_copied_ahead | the ranks average state \(--by state\) | --by state
plan | 1 | hidden_state_is_carried | the program carries it from batch to batch, and has no use for a mean of it
plan | 1 | batch_depends_on_what_was_read | what the program sends to the device depends on what it read from the device in the step before'

# program | what sed makes of it: a wrong one without its mistake, or a right one with a mistake. That which takes words needs no edit.
edits='clip_before_average | /DDP_STEP(0)/d; s/square_sum<<</DDP_STEP(0); &/
schedule_counts_samples | s/seen += count/seen += BATCH/
sum_divided_by_whole_batch | s/1.0f . BATCH/1.0f \/ (float)count/
gradient_forgotten | s/DDP_GRADIENT(.*;/& DDP_GRADIENT(layer.bias_gradient, OUTPUTS, DDP_FLOAT32);/
queue_of_own_keys | s/enqueue<<<.*;/& DDP_REDUCE(slot, SLOT, DDP_FLOAT32, DDP_OP_SUM, 0);/
same_items_on_all_ranks | s/at = step \* BATCH/& + first/
step_length_of_own_loss | s/float length/DDP_MEAN(\&loss); &/
partner_of_share | s/partner = .*;/partner = item ^ 1;/
right_accumulation_of_unequal_shares | /DDP_WEIGHT(/d
right_momentum_of_each_rank | s/layer_update/square_sum<<<1, 1>>>(layer.gradient, layer.gradient, WEIGHTS, 0); &/'

# compile OUTPUT: $program in the current folder.
compile() {
    works "$program: compiles ($1)" "$build/bin/softgpu-cc" -g -Xcompiler -O0,-Wall,-Wextra,-Werror,-Wno-missing-field-initializers \
        -D_GNU_SOURCE -I. -Isamples -I"$sources/interpose/include" "tests/programs/$program.cu" samples/common/parameter_file.c -lcublas -o "$1"
}

# check_ranks PROGRAM...: what `ddprun check` says; each fact of a verdict is in the verdict's line.
check_ranks() {
    run "$ddprun" check -n 2 --device softgpu --share-gpu "$@"
    sed -i -e ':a' -e 'N;$!ba' -e 's/\n    /; /g' "$work/stdout"
}

# says TITLE: the last command ended with the row's exit code, and with its words.
says() {
    check "$1: exit code $exit" test "$code" -eq "$exit"
    check "$1: $words" grep -qE "$words" "$work/stdout" "$work/stderr"
}

# is_judged VERDICT: the last check's verdict is equal, or another one.
is_judged() {
    local judged=none
    case $code in
    0) ! grep -q '^equal: ' "$work/stdout" || judged=equal ;;
    1 | 3) judged=other ;;
    esac
    [ "$judged" = "$1" ]
}

try_check() {
    local asks=none
    [ "$exit" -eq 0 ] || asks=any # wrong programs may have forgotten memory
    check_ranks "${options[@]}" ./plain "${arguments[@]}"
    says "check $program${arguments[*]:+ ${arguments[*]}}"
    local edit verdict=other
    edit=$(sed -n "s/^$program | //p" <<<"$edits")
    [ "$soak" = 1 ] && [ -n "$edit" ] || return 0
    [ "$exit" -eq 0 ] || verdict=equal
    sed -i "$edit" "tests/programs/$program.cu"
    compile edited
    cp "$sources/tests/programs/$program.cu" tests/programs
    check_ranks ./edited
    check "check $program, edited: $verdict" is_judged $verdict
}

try_scout() {
    run "$ddprun" -q --device softgpu scout --patch lines.diff ./plain
    if [ "$exit" -ne 0 ]; then
        says "scout $program"
        return
    fi
    check "scout $program: scouted" test "$code" -eq 0
    check "scout $program: a line has $words" grep -qE "^\+.*$words" lines.diff
    check "scout $program: the patch applies" patch -p0 --fuzz=0 -s -i lines.diff
    compile lines
    takes_turns "scout $program" 2 ./lines
    [ "$soak" = 1 ] || return 0
    sed -i -E "/$words/d" "tests/programs/$program.cu"
    compile without
    run "$ddprun" -n 2 --device softgpu ./without
    check "scout $program, without the line: the job ends" test "$code" -ne 0
}

try_plan() {
    run "$ddprun" -n 2 --device softgpu --share-gpu --plan auto --slow --yes "${options[@]}" ./plain --save ranks
    says "plan $program${options[*]:+ ${options[*]}}"
    [ "$exit" -eq 0 ] || return 0
    works "plan $program: one process" ./plain --save one --batch 16
    check "plan $program: the ranks have its parameters" "$compare" --quiet ranks one 1e-5
    [ "$soak" = 1 ] || return 0
    works "plan $program: one process with batches as large as a rank's" ./plain --save other --batch 8
    check "plan $program: and not these parameters" eval '! "$compare" --quiet ranks other 1e-3'
}

# try_program: all rows of $program, in a folder with its sources.
try_program() {
    local tool exit name words options arguments
    mkdir -p "$work/program"/tests/{lib,programs} "$work/program/samples/common"
    cd "$work/program" || exit 1
    cp "$sources"/tests/lib/*.h tests/lib
    cp "$sources/tests/programs/"{layer.h,"$program.cu"} tests/programs
    cp "$sources"/samples/common/parameter_file.[ch] samples/common
    compile plain
    while IFS='|' read -r tool exit name words options; do
        read -ra arguments <<<"$name"
        [ "${arguments[0]}" = "$program" ] || continue
        arguments=("${arguments[@]:1}")
        exit=$(trim "$exit")
        words=$(trim "$words")
        read -ra options <<<"$options"
        "try_$(trim "$tool")"
    done <<<"$rows"
}

mapfile -t programs < <(cut -d '|' -f 3 <<<"$rows" | awk '{ print $1 }' | sort -u | grep -E "$pattern")
check "there are programs to try" test ${#programs[@]} -gt 0
if [ ${#programs[@]} -eq 1 ]; then
    program=${programs[0]}
    try_program
else
    # Two at a time, each by a script of its own.
    printf '%s\n' "${programs[@]}" | xargs -P 2 -I{} bash -c 'bash "$0" "$1" "^{}\$" >"$2/{}.said" 2>&1; echo $? >"$2/{}.code"' "$0" "$build" "$work"
    shown='' # it stands in what the script has said
    for program in "${programs[@]}"; do
        cat "$work/$program.said"
        read -r code <"$work/$program.code" || code=1
        succeeded "$program: all of its rows"
    done
fi
[ "$pattern" != . ] || check "each program has a row" diff <(printf '%s.cu\n' "${programs[@]}") <(cd "$sources/tests/programs" && printf '%s\n' *.cu)
finish
