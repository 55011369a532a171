#!/usr/bin/env bash
# rows.sh BUILD [NAME...] - what `ddprun check` says of the mistakes and habits of rows.cu. No wrong program is equal, of most the true
# cause comes first, and no right one is accused. Ordinarily a fifth of the rows runs (chosen), at a rate of 1e-3 or 0.1; with DDPRUN_SOAK=1
# all run at both, and wrong ones at 1e-6, too. ROWS_RATES names others. The last lines are the score. mistakes.sh has conv.cu's.
#
# A row says what the mistake is, and not what the tool prints. A row that is known to fail is in `known` with what it does; when it
# does not fail any more, the script fails until its line there is gone.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/lib.sh"
wanted=("${@:2}")

# NAME | options of check | arguments | exit codes | what the text, or the first of the advice, has to name: a regular expression
# of Python's, without regard to case. The name is the mistake's unless the arguments name another.
step_place='DDP_STEP.*(before|behind|after|between|place|optimizer|update|backward)'
half='half|[0-9] elements|fewer elements|in full|whole tensor|full count'
bias='unannotated|not annotated|without annotation|annotate'
share='DDP_SHARD|share|same (batch|items|records|data)|overlap'
factor='rate|factor|times|divid|as large|twice|scaled'
clock='clock|time of day|date|seed|random bytes|/dev/urandom|getrandom|random_device'
not_numbers='NaN|infinit|finite|not a number'
wrong_rows=(
    "first_ignored          ||                                 | 1   | $share|first"
    "first_in_floats        ||                                 | 1   | records|unit|floats|bytes|moved|DDP_SHARD"
    "labels_not_moved       ||                                 | 1   | label|copy|copies|moved"
    "wrong_labels           ||                                 | 1   | label|copy|copies|moved|other (records|items|data)"
    "moved_by_one           ||                                 | 1   | record|first (of|record|item)|moved|overlap|DDP_SHARD"
    "shuffle_by_rank        ||                                 | 1   | shuffle|seed|order|other (records|items|data)"
    "drop_last              ||                                 | 1   | fewer|share|DDP_WEIGHT|unequal|items|records|missing"
    "augment_from_shuffle   ||                                 | 1 3 | order|shuffle|generator|random|seed|augment|other (records|items|data)"
    "wrong_labels2          || --habit zero_head --habit augment_by_rank --mistake wrong_labels | 1 3 | ."
    "clock_seconds          ||                                 | 1 3 | $clock"
    "clock_micro            ||                                 | 1 3 | $clock"
    "clock_nano             ||                                 | 1 3 | $clock"
    "random_device          ||                                 | 1 3 | $clock"
    "urandom                ||                                 | 1 3 | $clock"
    "getrandom              ||                                 | 1 3 | $clock"
    "valid_of_share         ||                                 | 1   | valid|DDP_WEIGHT|divid|divisor|unequal"
    "divisor_whole_batch    ||                                 | 1   | divid|divisor|whole batch"
    "bias_divided           ||                                 | 1   | divided by the whole batch"
    "divisor_adam           || --mistake divisor_whole_batch --optimizer adam | 1 3 | divid|divisor|whole batch"
    "uneven_unweighted      ||                                 | 1 3 | DDP_WEIGHT|does not divide|divide|unequal|items"
    "step_before_last_micro || --micro 3 --habit shard_micro   | 1   | $step_place|written|micro"
    "step_before_last_half  || --micro 2 --mistake step_before_last_micro | 1 3 | ."
    "step_skipped           ||                                 | 1   | DDP_STEP"
    "group_never_stepped    ||                                 | 1   | group"
    "divided_behind_step    ||                                 | 1   | (writ|chang|scal).*(between|after|behind).*DDP_STEP|(between|after|behind).*DDP_STEP.*(writ|chang|scal)|scale_by|factor|divid"
    "half_gradients         ||                                 | 1   | $half"
    "gradient_unwritten     ||                                 | 1   | gradient|written|writes"
    "realloc_freed          | --steps 60 |                     | 1 2 4 | annotat|freed"
    "realloc_kept           | --steps 60 |                     | 1   | annotat|moved|another address|stale|not written|never writ"
    "nan_on_ranks           ||                                 | 1   | $not_numbers"
    "nan_everywhere         ||                                 | 1 3 | ^(?!.*finite in one process).*($not_numbers)"
    "nan_and_inf            ||                                 | 1 3 | ^(?!.*finite in one process).*($not_numbers)"
    "clip_before_step       ||                                 | 1   | clip|norm"
    "bias_device            ||                                 | 1   | $bias"
    "bias_managed           ||                                 | 1   | $bias"
    "bias_host              ||                                 | 1   | $bias|host"
    "bias_host_zero         || --mistake bias_host --habit zero_bias | 1 | $bias|host"
    "probe                  ||                                 | 1   | $bias"
    "probe_few              | --steps 12 | --mistake probe --optimizer momentum | 1 | $bias"
    "late_bias              ||                                 | 1   | $bias"
    "realloc_each           ||                                 | 1 2 | annotat|moved|another address|stale|not written|never writ"
    "rate_times_n           ||                                 | 1   | $factor"
    "rate_momentum          || --mistake rate_times_n --optimizer momentum | 1 | $factor"
    "rate_adam              || --mistake rate_times_n --optimizer adam --warmup 50 | 1 | $factor"
    "rate_in_graph          || --mistake rate_times_n --habit graph | 1 | $factor"
    "clip_in_graph          || --mistake clip_before_step --habit graph | 1 | clip|norm"
    "rate_on_rank_1         ||                                 | 1   | $factor"
    "rate_on_rank_1_adam    || --mistake rate_on_rank_1 --optimizer adam --warmup 50 | 1 | $factor"
    "local_second_moment    || --optimizer adam --warmup 50    | 1   | moment|before DDP_STEP|unannotated|^[^:;]*state"
    "average_before_step    ||                                 | 1   | before DDP_STEP|unannotated|move_average"
    "decay_on_rank_0        ||                                 | 1   | decay|rank 1"
    "second_update          || --micro 2                       | 1   | several updates|updates|twice|more than one|$step_place"
    "loss_scale_by_rank     ||                                 | 1   | scale|overflow|factor|before DDP_STEP|decision|left out"
    "plateau_by_rank        ||                                 | 1   | $factor|decision|host|DDP_MEAN"
    "stop_by_rank           ||                                 | 1 2 4 | stop|end|fewer steps|DDP_MEAN|finished"
    "synced_count           ||                                 | 1 3 | DDP_REDUCE|divid|count|share"
)

# NAME | options of check | arguments | exit codes. The name is the habit's unless it begins with a capital letter.
right_rows=(
    "Plain               ||                        | 0"
    "Momentum            || --optimizer momentum   | 0"
    "Adam                || --optimizer adam       | 0"
    "Warmup              || --optimizer adam --warmup 500 | 0"
    "Warmup_sgd          || --warmup 500           | 0"
    "Micro               || --micro 3              | 0"
    "Micro_no_sync       || --micro 3 --habit no_sync | 0"
    "Micro_zeroed        || --micro 2 --habit zeroed | 0"
    "Short               || --steps 5              | 0"
    "Four_ranks          | -n 4 |                  | 0"
    "Three_ranks         | -n 3 | --optimizer adam | 0"
    "Free                | --free | --steps 20     | 0"
    "valid_weighted      ||                        | 0"
    "two_steps           || --micro 2 --habit shard_micro | 0"
    "Two_steps_of_shares || --micro 2 --habit two_steps | 0"
    "shard_micro         || --micro 3              | 0"
    "zero_head           ||                        | 0"
    "Zero_head_augmented || --habit zero_head --habit augment_by_rank | 0 3"
    "augment_by_rank     ||                        | 3"
    "augment_by_item     ||                        | 0"
    "augment_all         ||                        | 0"
    "momentum_in_gradient||                        | 0"
    "frozen              ||                        | 0"
    "dropout_by_rank     ||                        | 3"
    "evaluation          ||                        | 0"
    "uneven_weighted     ||                        | 0"
    "idle                ||                        | 0"
    "loss_in_gradient    ||                        | 0"
    "scaled              ||                        | 0"
    "Scaled_micro        || --habit scaled --habit zeroed --micro 2 | 0"
    "Idle_64             | --steps 64 | --habit idle | 0"
    "flat                ||                        | 0"
    "Flat_adam           || --habit flat --optimizer adam | 0"
    "two_streams         ||                        | 0"
    "graph               ||                        | 0"
    "amp                 ||                        | 0"
    "bf16_weights        ||                        | 0 3"
    "bf16_copies         ||                        | 0"
    "two_groups          ||                        | 0"
    "group_turns         ||                        | 0"
    "clip                ||                        | 0"
    "checkpoint_on_0     ||                        | 0"
    "checkpoint_by_all   ||                        | 0"
    "clock_log           ||                        | 0"
    "clock_weights       ||                        | 0 3"
    "clock_shared        ||                        | 0 3"
    "managed_bias        ||                        | 0"
    "host_bias           ||                        | 0"
    "average             ||                        | 0"
    "own_average         ||                        | 0"
    "own_norm            ||                        | 0"
    "reduced_norm        ||                        | 0 3"
    "decay               ||                        | 0"
    "plateau             ||                        | 0"
    "stop                ||                        | 0"
    "realloc             | --steps 60 |            | 0"
    "records             ||                        | 0"
    "device_data         ||                        | 0"
    "copy_each           ||                        | 0"
    "prefetch            ||                        | 0"
    "padded              ||                        | 0"
    "strided             ||                        | 0"
    "state               || --optimizer momentum   | 0"
    "rate_decays         ||                        | 0"
    "shuffle_each_step   ||                        | 0"
    "synced_mean         ||                        | 0"
)

# NAME, and what it does today; "sometimes ..." need not happen.
declare -A known=(
    [clip_in_graph]='sometimes, at 0.1: what a graph averages is not compared, and the advice is a check without graphs'
    [clip_before_step]='sometimes, at 0.1: what the update makes of gradients comes first'
)

say=${ROWS_SAY:-0} # 1: what each verdict says, too

# names_cause PATTERN: whether the last verdict's text, or the first part of its advice, matches; without a verdict, what stderr says.
# Shows both with ROWS_SAY=1.
names_cause() {
    python3 -IS -c '
import json, re, sys
pattern, verdict, stderr, say = sys.argv[1:]
try:
    found = json.load(open(verdict))
except OSError:
    found = {}
text, advice = found.get("text") or "", found.get("advice") or ""
if not found.get("verdict"):
    text += open(stderr).read().replace("\n", " ")
if say == "1":
    print("    " + text + "\n    what to do: " + advice)
sys.exit(re.search(pattern, text + " " + advice.split(";")[0], re.I) is None)' "$1" "$work/verdict.json" "$work/stderr" "$say"
}

# score of all rows: wrong ones, of them not equal, of them with the true cause first; right ones, of them as their row says.
wrong=0 not_equal=0 true_cause=0 right=0 spared=0 known_equal=0

# row KIND RATE ROW: runs it, and counts.
row() {
    local kind=$1 rate=$2 name options arguments codes pattern words why='' named='' begin=${EPOCHREALTIME/./}
    IFS='|' read -r name options arguments codes pattern <<<"$3"
    name=$(trim "$name") codes=$(trim "$codes") pattern=$(trim "${pattern:-}")
    [ "${#wanted[@]}" -eq 0 ] || [[ " ${wanted[*]} " == *" $name "* ]] || return 0
    read -ra words <<<"$arguments"
    case $kind in
        right) [[ $name == [A-Z]* ]] || words+=(--habit "$name") ;;
        *) [[ " ${words[*]} " == *" --mistake "* ]] || words+=(--mistake "$name") ;;
    esac
    checked 2 "$options" "$rows" "${words[@]}" --rate "$rate"
    [[ " $codes " == *" $code "* ]] || why="exit code $code instead of $codes"
    if [ "$kind" = right ]; then
        right=$((right + 1))
        [ -n "$why" ] || spared=$((spared + 1))
        [ -z "$why" ] || names_cause .
    else
        wrong=$((wrong + 1))
        [ "$code" -eq 0 ] || not_equal=$((not_equal + 1))
        if [ -z "$why" ] && ! names_cause "$pattern"; then
            why='another cause is named'
        fi
        [ -n "$why" ] || true_cause=$((true_cause + 1))
    fi
    # At such a rate no update shows the cause.
    [ "$kind" != wrong ] || [ "$rate" != 1e-6 ] || [ "$code" -eq 0 ] || why=''
    named="$kind $name, rate $rate"
    if [ -z "$why" ] && [ -n "${known[$name]:-}" ] && [ "$rate" != 1e-6 ] && [[ ${known[$name]} != sometimes* ]]; then
        not_ok "$named" "known to fail (${known[$name]}), and does not: take the line away"
    elif [ -z "$why" ]; then
        ok "$named: $code $cause, $(((${EPOCHREALTIME/./} - begin) / 1000)) ms"
    elif [ -n "${known[$name]:-}" ]; then
        [ "$kind$code" != wrong0 ] || known_equal=$((known_equal + 1))
        printf 'known - %s: %s\n' "$named" "$why"
    else
        not_ok "$named" "$why; again: ROWS_RATES=$rate bash tests/tools/check/rows.sh BUILD $name"
    fi
}

cd "$work" || exit 1
# rates NUMBER: at which rates a row runs.
soak=${DDPRUN_SOAK:-0}
rates() {
    if [ -n "${ROWS_RATES:-}" ]; then
        printf '%s' "$ROWS_RATES"
    elif [ "$soak" -eq 1 ]; then
        printf '0.1 1e-3'
    elif (($1 % 2 == 1)); then
        printf '0.1'
    else
        printf '1e-3'
    fi
}

# all_rows KIND ROW...
all_rows() {
    local kind=$1 number=0 each rate
    shift
    for each in "$@"; do
        number=$((number + 1))
        # Of the right ones right.sh has most.
        [ "${#wanted[@]}" -gt 0 ] || chosen "$number" 5 || continue
        for rate in $(rates $((number / 5))); do row "$kind" "$rate" "$each"; done
    done
}

all_rows wrong "${wrong_rows[@]}"
all_rows right "${right_rows[@]}"
printf 'wrong: %d of %d not equal, cause first in %d; right: %d of %d\n' "$not_equal" "$wrong" "$true_cause" "$spared" "$right"
# What these steps do not show, and others will, is named beside the verdict.
if [ "${#wanted[@]}" -eq 0 ]; then
    run "$ddprun" check -n 2 "$rows" --mistake clip_far_before_step
    check "a clipping in front of DDP_STEP whose bound is not reached is named" \
        grep -q '^missing: DDP_STEP .* before add_squares' "$work/stdout"
fi
check "no wrong program is equal" [ $((not_equal + known_equal)) -eq "$wrong" ]
if [ "$soak" -eq 1 ] && [ -z "${ROWS_RATES:-}" ] && [ "${#wanted[@]}" -eq 0 ]; then
    ROWS_RATES=1e-6
    all_rows wrong "${wrong_rows[@]}"
    printf 'wrong, rate 1e-6 besides: %d of %d not equal\n' "$not_equal" "$wrong"
    check "no wrong program is equal at 1e-6" [ $((not_equal + known_equal)) -eq "$wrong" ]
fi
finish
