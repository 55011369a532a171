#!/usr/bin/env bash
# causes.sh BUILD [NAME...] - `ddprun check` names the cause: of each mistake in causes.cu the verdict, the cause and what the sentences say,
# which begin with step, tensor, line, size and ranks; and the right neighbours of the mistakes are equal.
# shellcheck source=tests/end_to_end/lib.sh
source "$(dirname "$0")/../../end_to_end/lib.sh"
# shellcheck source=tests/tools/check/lib.sh
source "$(dirname "$0")/lib.sh"
wanted=("${@:2}")
# A sanitizer finds nothing more in the others.
[ "$sanitized" -eq 0 ] || [ $# -gt 1 ] || wanted=(divided_behind_step group_unstepped half_gradient nan_everywhere)

# NAME ("right": none) | arguments | options of check | exit code | cause | what verdict or advice say, an extended regular expression
rows=(
    'rate_times_n | --rate 0.1 || 1 | update | every parameter is 2 times one rank.s, the number of ranks'
    'rate_times_n | --rate 1e-6 || 1 | update | every parameter is 2 times one rank.s, the number of ranks'
    'rate_times_n | --rate 1e-6 --adam || 1 | update | every parameter is 2 times one rank.s, the number of ranks'
    'rate_times_n | --overflow || 1 | update | every parameter is 2 times one rank.s, the number of ranks'
    'rate_times_n | --idle-group || 1 | update | every parameter is 2 times one rank.s, the number of ranks'
    'rate_by_n ||| 1 | update | every parameter is 0.5 times one rank.s'
    'rate_on_rank_1 | --rate 1e-6 || 1 | update | on rank 1, and the gradients .* 2 times .*not the same on all ranks'
    'rate_times_n ||| 1 | update | the update gets one rank.s gradients, but another learning rate'
    'divided_behind_step ||| 1 | update | gradient [1-4], .*changes between DDP_STEP and .sgd., to 0.5 times one rank.s.*DDP_STEP leaves the mean'
    'divided_behind_step | --adam || 1 | update | on all ranks: gradient [1-4], .*changes between DDP_STEP and .adam., to 0.5 times'
    'divided_behind_step | --adam | --free --steps 8 | 1 | update | the optimizer.s moments are those of gradients that are 0.5 times'
    'divided_behind_step_on_rank_1 ||| 1 | update | on rank 1: gradient [1-4], .*changes between DDP_STEP and .sgd., to 0.5 times'
    'one_divided_behind_step ||| 1 | update | parameter 2 of 4, .*: gradient 2, .*to 0.5 times'
    'left_out ||| 1 | update | between DDP_STEP 6 and the next one .sgd. updated the same parameter 2 times.*left out'
    'left_out || --no-overlap | 1 | update | between DDP_STEP 6 and the next one .sgd. updated the same parameter 2 times.*left out'
    'two_updates ||| 1 | update | between DDP_STEP 1 and the next one .sgd. .* 2 times.*each update needs a DDP_STEP of its own'
    'two_updates_once ||| 1 | update | between DDP_STEP 6 and the next one .sgd. updated the same parameter 2 times.*left out'
    'reallocated ||| 1 | unannotated | after step 13 parameter 2 of 4, .*moves no more on all ranks'
    'reallocated_and_freed ||| 1 | stopped | -'
    'forgotten ||| 1 | unannotated | .sgd. writes .argument 1., 10 elements'
    'forgotten | --kind managed || 1 | unannotated | .sgd. writes .argument 1., 10 elements'
    'forgotten | --kind host || 1 | unannotated | .sgd. writes .argument 1., 10 elements'
    'forgotten | --kind managed --adam || 1 | unannotated | .adam. writes .argument 1., 10 elements'
    'stops_on_rank_1 ||| 1 | stopped | -'
    'group_unstepped | --groups || 1 | tensor | group 1 is never stepped, and has gradient [34].*DDP_STEP_GROUP.1, stream.'
    'half_gradient ||| 1 | tensor | parameter 2 of 4, .*from element 48 on, where gradient 2, .* ends'
    'half_gradients ||| 1 | tensor | elements, ends.*annotate the whole gradient'
    'nan_everywhere ||| 3 | not_finite | after step 3 parameter 1, .*on one rank, too'
    'nan_and_infinity ||| 3 | not_finite | after step 3 parameter 2, .*on one rank, too'
    'nan_on_ranks ||| 1 | overflow | in step 3 gradient 1 of 4, .*infinite or NaN, and finite on one rank'
    'right ||| 0 | null | -'
    'right | --adam --groups || 0 | null | -'
    'right | --scaled || 0 | null | -'
    'right | --idle-group || 0 | null | -'
    'right | --twice || 0 | null | -'
    'right | --overflow || 0 | null | -'
    'right | --waits || 0 | null | -'
    'right | --head || 0 | null | -'
    'right | --kind managed || 0 | null | -'
    'right | --kind host || 0 | null | -'
)

# says PATTERN: the last verdict and its advice, or what is wrong.
says() {
    local first
    first=$(grep -E '^(different|not comparable): ' "$work/stdout")
    if ! grep -Eq '^[a-z ]+: (in|after|before) step [0-9]+ .*\(causes.cu:[0-9]+\)|^[a-z ]+: after step [0-9]+ unannotated' <<<"$first"; then
        echo "the first line has no place: $first"
    elif ! grep -Eq -e "$1" <<<"$first $(grep '^what to do: ' "$work/stdout")"; then
        echo "it says: $first"
    fi
}

for row in "${rows[@]}"; do
    IFS='|' read -r name arguments options expected cause pattern <<<"$row"
    read -r name <<<"$name"
    read -r expected <<<"$expected"
    read -r cause <<<"$cause"
    read -r pattern <<<"$pattern"
    read -ra words <<<"$arguments"
    [ "${#wanted[@]}" -eq 0 ] || [[ " ${wanted[*]} " == *" $name "* ]] || continue
    mistake=(--mistake "$name")
    [ "$name" != right ] || mistake=()
    checked 2 "$options" "$causes" "${words[@]}" "${mistake[@]}"
    why=$(why_not "$expected" "$cause" -)
    [ -n "$why" ] || [ "$pattern" = - ] || why=$(says "$pattern")
    title="$name ${words[*]}"
    if [ -z "$why" ]; then ok "$title: $code $cause"; else not_ok "$title" "$why"; fi
done
finish
