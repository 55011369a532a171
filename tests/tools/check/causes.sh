#!/usr/bin/env bash
# causes.sh BUILD [NAME...] - `ddprun check` names the cause: of mistakes in rows.cu and updates.cu the verdict, the cause and what the sentences say,
# which begin with step, tensor, line, size and ranks; and the right neighbours of the mistakes are equal. A fifth of the rows run (chosen), with DDPRUN_SOAK=1 all.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/lib.sh"
wanted=("${@:2}")
# A sanitizer finds nothing more in the others.
[ "$sanitized" -eq 0 ] || [ $# -gt 1 ] || wanted=(divided_behind_step group_never_stepped half_gradient nan_everywhere)

# PROGRAM | its arguments | options of check | exit code | cause | what verdict or advice say, an extended regular expression
rows=(
    'rows | rate_times_n || 1 | update | the change is 2 times that of one process, the number of ranks'
    'updates | rate_times_n --rate 1e-6 || 1 | update | the change is 2 times that of one process, the number of ranks'
    'updates | rate_times_n --rate 1e-6 --adam || 1 | update | .rate. .*is 2e-06 on all ranks and 1e-06 in one process, and is passed to .adam. .*as argument 5'
    'rows | rate_times_n amp || 1 | update | the change is 2 times that of one process, the number of ranks'
    'rows | rate_times_n idle_group || 1 | update | the change is 2 times that of one process, the number of ranks'
    'rows | rate_by_n || 1 | update | the change is 0.5 times that of one process'
    'updates | rate_on_rank_1 --rate 1e-6 || 1 | update | differs on rank 1 .*; the annotated gradients .* 2 times .*depends on the rank'
    'rows | rate_times_n || 1 | update | .sgd. .*is the first operation that differs: argument 4 .*is 0.2 on all ranks and 0.1 in one process'
    'rows | divided_behind_step || 1 | update | .scale_by. .*differs: between DDP_STEP and the update it changes averaged gradients'
    'rows | divided_behind_step --optimizer adam --warmup 50 || 1 | update | .scale_by. .*between DDP_STEP and the update it changes averaged gradients'
    'rows | divided_behind_step --optimizer adam --warmup 50 | --free --steps 8 | 1 | unannotated | .adam. writes'
    'rows | divided_behind_step_on_rank_1 || 1 | update | .scale_by. .*rank 1 makes it, and one process does not'
    'rows | one_divided_behind_step || 1 | update | .scale_by. .*changes averaged gradients.*parameter 2 of 4, '
    'rows | step_skipped || 1 | update | .sgd. .*it updates a parameter, and argument 2 points to a gradient that DDP_STEP has not averaged since .weight_gradient.'
    'rows | step_skipped | --no-overlap | 1 | update | .sgd. .*it updates a parameter, and argument 2 points to a gradient that DDP_STEP has not averaged since .weight_gradient.'
    'rows | two_updates || 1 | update | .sgd. .*it updates a parameter, and argument 2 points to a gradient that DDP_STEP has not averaged since .weight_gradient.'
    'rows | second_update_once --micro 2 || 1 | update | .sgd. .*it updates a parameter, and argument 2 points to a gradient that DDP_STEP has not averaged since .weight_gradient.'
    'updates | reallocated | --steps 20 | 1 | unannotated | after step 14 unannotated memory 1, which .sgd. writes'
    'rows | realloc_freed | --steps 60 | 1 | stopped | -'
    'rows | bias_device || 1 | unannotated | .sgd. writes .argument 1., 16 elements'
    'rows | bias_managed || 1 | unannotated | .sgd. writes .argument 1., 16 elements'
    'rows | bias_pinned || 1 | unannotated | .sgd. writes .argument 1., 16 elements'
    'rows | bias_managed --optimizer adam || 1 | unannotated | .adam. writes .argument 1., 16 elements'
    'rows | stops_on_rank_1 || 1 | stopped | -'
    'rows | group_never_stepped || 1 | update | .sgd. .*argument 2 .*points to a gradient that DDP_STEP has not averaged'
    'rows | half_gradient || 1 | tensor | it changes 80 elements of the parameter; .* DDP_GRADIENT annotates only 40: gradient 3, .*parameter 3 of 4'
    'rows | half_gradients || 1 | update | it changes 16 elements of the parameter; .* DDP_GRADIENT annotates only 8: gradient 2, .*annotate the whole gradient'
    'rows | nan_everywhere || 3 | not_finite | after step 5 parameter 1, .*in one process, too'
    'rows | nan_and_inf || 3 | not_finite | after step 5 parameter [12], .*in one process, too'
    'rows | nan_on_ranks || 1 | overflow | in step 5 averaged gradient 1 of 4, .*infinite or NaN, and finite in one process'
    'rows ||| 0 | null | -'
    'rows | two_groups --optimizer adam || 0 | null | -'
    'rows | amp || 0 | null | -'
    'rows | idle_group || 0 | null | -'
    'rows | twice || 0 | null | -'
    'rows | waits || 0 | null | -'
    'rows | zero_head || 0 | null | -'
    'rows | managed_bias || 0 | null | -'
    'rows | pinned_bias || 0 | null | -'
)

# says PATTERN: the last verdict and its advice, or what is wrong.
says() {
    local first
    first=$(grep -E '^(different|not comparable): ' "$work/stdout")
    if ! grep -Eq '^[a-z ]+: (in|after|before) step [0-9]+ .*\((rows_model.h|rows_kernels.h|updates.cu):[0-9]+|^[a-z ]+: after step [0-9]+ unannotated' <<<"$first"; then
        echo "the first line has no place: $first"
    elif ! grep -Eq -e "$1" <<<"$first $(grep '^what to do: ' "$work/stdout")"; then
        echo "it says: $first"
    fi
}

number=0
for row in "${rows[@]}"; do
    number=$((number + 1))
    IFS='|' read -r program arguments options expected cause pattern <<<"$row"
    program=$(trim "$program") pattern=$(trim "$pattern")
    read -ra words <<<"$arguments"
    [ "${#wanted[@]}" -eq 0 ] || [[ " ${wanted[*]} " == *" ${words[0]:-right} "* ]] || continue
    [ "${#wanted[@]}" -gt 0 ] || chosen "$number" 5 || continue
    checked 2 "$options" "$build/tests/tools/check/$program" "${words[@]}"
    why=$(why_not "$(trim "$expected")" "$(trim "$cause")" -)
    [ -n "$why" ] || [ "$pattern" = - ] || why=$(says "$pattern")
    title="$program ${words[*]}"
    if [ -z "$why" ]; then ok "$title: $code $cause"; else not_ok "$title" "$why"; fi
done
finish
