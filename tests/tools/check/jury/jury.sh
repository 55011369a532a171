#!/usr/bin/env bash
# jury.sh BUILD [WORDS...] - what `ddprun check` says of 60 wrong and 60 right programs after the habits of public trainers, at learning
# rates from 0.1 to 1e-6: no wrong one is equal, and no right one is accused; the true cause comes first in 80 of 100, and is listed in
# 95. Ordinarily a dozen rows run, all with DDPRUN_SOAK=1; WORDS are programs, which run alone, JURY_RATES other rates, JURY_RANKS other
# ranks. JURY_SAY=1 prints what each verdict says.
#
# With JURY_TRUTH=1 the rows themselves are tried, without `check`: what one process and several keep is the same, but for rounding,
# of right programs only. At 1e-3 where the row's rate is less: below, nothing is kept but rounding.
# shellcheck source=tests/end_to_end/lib.sh
source "$(dirname "$0")/../../../end_to_end/lib.sh"
# shellcheck source=tests/tools/check/lib.sh
source "$(dirname "$0")/../lib.sh"
wanted=("${@:2}")
asks=any
truth=${JURY_TRUTH:-0} soak=${DDPRUN_SOAK:-0}

# What names the true cause: regular expressions of Python's, without regard to case.
place='\b(moment|norm|average|clipped|computed|changed)\b[^.;]*(before|in front of) DDP_STEP|before they are averaged|own gradients|DDP_STEP between backward'
factor='\brate|factor|times|divid|scaled|argument'
random='random (numbers|bits)|noise|mask\b|seeded (by|with) (the|its) rank'
own="share's own|(statistics|sums?|mean) of the share|DDP_REDUCE"
bare='unannotated|not annotated|without annotation'

# FAMILY PROGRAM | ranks | rate | what names the cause | ci, where it always runs
wrong_rows=(
    "optim lion_own             | 2 | 1e-3 | $place|first moment|unannotated"
    "optim sign_before          | 2 | 1e-2 | $place"
    "optim top_before           | 2 | 1e-1 | $place|unannotated"
    "optim lars_own             | 2 | 1e-2 | $place"
    "optim unit_clip_before     | 2 | 1e-1 | $place|clip"
    "optim clip_value_before    | 3 | 1e-3 | $place|clip | ci"
    "optim noise_by_rank        | 2 | 1e-2 | $random|between DDP_STEP and"
    "optim noise_before_by_rank | 2 | 1e-4 | $random|before DDP_STEP"
    "optim rounding_by_rank     | 2 | 1e-2 | $random|round_at_random|not the same on all ranks"
    "optim rate_sqrt_n          | 2 | 1e-6 | $factor"
    "optim restarts_by_samples  | 2 | 1e-3 | $factor"
    "optim average_decay_n      | 2 | 1e-2 | average|blend|factor|argument"
    "optim slow_by_rank         | 2 | 1e-1 | $bare|state|blend|initialised"
    "optim reset_momentum_on_0  | 2 | 1e-3 | moment|state|decision | ci"
    "optim unfreeze_unannotated | 2 | 1e-6 | $bare | ci"
    "optim host_adam_before     | 2 | 1e-3 | $place"
    "optim decay_times_n        | 3 | 1e-1 | decay|factor|times|divid|add_scaled"
    "optim term_on_rank_0       | 2 | 1e-3 | decay|add_scaled|rank 0|term"
    "optim skip_own             | 2 | 1e-2 | $place|left out|decision"
    "optim layer_rates_swapped  | 2 | 1e-4 | $factor"
    "optim adam_count_n         | 2 | 1e-3 | $factor"
    "optim update_on_rank_0     | 2 | 1e-6 | does not (move|change|update)|decision|left out"
    "optim reset_by_rank        | 2 | 1e-2 | $random|initialised|copies|not the same on all ranks"
    "optim sam_own              | 2 | 1e-1 | $place|DDP_STEP must stand"
    "optim fourth_own           | 2 | 1e-2 | $place|unannotated"
    "optim masked_by_rank       | 2 | 1e-3 | $random|before DDP_STEP"
    "optim freeze_own           | 2 | 1e-1 | decision|moved|frozen"
    "optim filter_squares       | 2 | 1e-3 | $place|unannotated"
    "losses mixup_in_share        | 2 | 1e-3 | read of the batch|share's own|of the share"
    "losses mixup_by_rank         | 2 | 1e-2 | $random|augment|other (items|data|records)|cop(y|ies)"
    "losses teacher_by_rank       | 2 | 1e-1 | $bare|state|initialised"
    "losses teacher_on_0          | 2 | 1e-2 | $bare|state|blend"
    "losses uncertainty_unannotated | 2 | 1e-3 | $bare | ci"
    "losses mining_own            | 2 | 1e-3 | $own"
    "losses mining_count_own      | 2 | 1e-6 | $own|divi|DDP_WEIGHT"
    "losses curriculum_unweighted | 2 | 1e-3 | DDP_WEIGHT|divi"
    "losses class_weights_own     | 3 | 1e-2 | $own|divi|DDP_WEIGHT"
    "losses baseline_own          | 2 | 1e-2 | $own | ci"
    "losses balance_own           | 2 | 1e-1 | $own"
    "losses term_of_share         | 2 | 1e-3 | term|decay|add_scaled|divided by the share"
    "losses centers_own           | 2 | 1e-2 | $bare|$own"
    "losses contrast_own          | 2 | 1e-4 | $own"
    "losses dice_own              | 3 | 1e-1 | $own"
    "losses constant_term         | 2 | 1e-6 | term|not divided | ci"
    "losses pseudo_own            | 2 | 1e-2 | $own"
    "losses normaliser_own        | 2 | 1e-3 | $own|DDP_MEAN|factor|times"
)
right_rows=(
    "optim nesterov       | 2 | 1e-2"
    "optim rmsprop        | 3 | 1e-3"
    "optim adagrad        | 2 | 1e-2"
    "optim adamw          | 2 | 1e-6"
    "optim lion           | 2 | 1e-4 | ci"
    "optim lars           | 3 | 1e-2"
    "optim lookahead      | 2 | 1e-1"
    "optim swa            | 2 | 1e-2"
    "optim average        | 2 | 1e-3 | ci"
    "optim clip_value     | 2 | 1e-1"
    "optim clip_layer     | 2 | 1e-6"
    "optim unit_clip      | 3 | 1e-2"
    "optim noise          | 2 | 1e-3"
    "optim noise_common   | 2 | 1e-2"
    "optim centralise     | 2 | 1e-2"
    "optim restarts       | 2 | 1e-1"
    "optim layer_rates    | 2 | 1e-4"
    "optim unfreeze       | 2 | 1e-3 | ci"
    "optim max_norm       | 2 | 1e-1"
    "optim host_adam      | 2 | 1e-2 | ci"
    "optim every_fourth   | 2 | 1e-2"
    "optim sam            | 2 | 1e-1"
    "optim soft_threshold | 2 | 1e-3"
    "optim normalised     | 2 | 1e-5"
    "optim skip_large     | 2 | 1e-2"
    "optim filter         | 2 | 1e-3"
    "optim rounding       | 2 | 1e-1"
    "optim kahan          | 2 | 1e-6"
    "optim ping_pong      | 2 | 1e-2"
    "optim ping_pong_one  | 2 | 1e-2"
    "optim reset_head     | 3 | 1e-3"
    "losses smoothing     | 2 | 1e-2"
    "losses mixup         | 2 | 1e-3"
    "losses distill       | 2 | 1e-2"
    "losses mean_teacher  | 2 | 1e-2 | ci"
    "losses uncertainty   | 2 | 1e-4"
    "losses mining        | 2 | 1e-3"
    "losses curriculum    | 2 | 1e-3 | ci"
    "losses class_weights | 3 | 1e-2"
    "losses baseline      | 2 | 1e-2"
    "losses balance       | 2 | 1e-1"
    "losses weights_term  | 2 | 1e-3"
    "losses centers       | 2 | 1e-2"
    "losses contrast      | 2 | 1e-4"
    "losses dice          | 3 | 1e-1"
    "losses pseudo        | 2 | 1e-2"
    "losses normaliser    | 2 | 1e-3"
    "losses focal         | 2 | 1e-6"
)

# PROGRAM, and why it fails today. Such a row fails no test, and counts as a failure in the summary.
declare -A known=()

# ---- what a row is held against ----

# judged KIND PATTERN: what the last check made of the program, in one word: equal, first, listed, other (wrong ones), or fair, accused
# (right ones); and what it said.
judged() {
    python3 -IS -c '
import json, re, sys
kind, pattern, work, code = sys.argv[1:]
try:
    found = json.load(open(work + "/verdict.json"))
except (OSError, ValueError):
    found = {}
stdout, stderr = open(work + "/stdout").read(), open(work + "/stderr").read()
missing = re.findall("^missing: .*", stdout, re.M)
text, advice = found.get("text") or " ".join(stderr.split()[-60:]), found.get("advice") or ""
says = lambda words: re.search(pattern, words, re.I) is not None
if kind == "right":
    word = "fair" if code == "0" and not missing else "accused"
elif code == "0":
    word = "equal"
else:
    word = "first" if says(text + " " + re.split("[;,]" if "look for" in advice else ";", advice)[0]) else "listed" if says(text + " " + advice) else "other"
print(word, "code", code, found.get("cause") or "-", "|", text, "| what to do:", advice, *missing)' "$1" "$2" "$work" "$code"
}

# kept PROCESSES: how far what the ranks have kept is from what one process has, as a part of how far that has come.
apart() {
    python3 -IS -c '
import sys
path, ranks = sys.argv[1], int(sys.argv[2])
numbers = lambda name: [[float(word) for word in line.split()] for line in open(name)]
norm = lambda ones, others: sum((a - b) ** 2 for one, other in zip(ones, others) for a, b in zip(one, other)) ** 0.5
alone = numbers(path + "/alone.0")
moved = norm(alone[:4], alone[4:8])
print("%.1e" % max(norm(alone[4:], numbers(path + "/ranks.%d" % rank)[4:]) / moved for rank in range(ranks)))' "$work" "$1"
}

# try_truth KIND RANKS RATE COMMAND...
try_truth() {
    local kind=$1 ranks=$2 rate=$3 far
    shift 3
    rate=$(awk -v rate="$rate" 'BEGIN { print rate < 1e-3 ? 1e-3 : rate }')
    rm -f "$work"/alone.* "$work"/ranks.*
    JURY_SAVE=$work/alone run "$ddprun" -q -n 1 "$@" --rate "$rate"
    [ "$code" -eq 0 ] || { echo "one process ends with $code" && return; }
    JURY_SAVE=$work/ranks run "$ddprun" -q -n "$ranks" "$@" --rate "$rate"
    far=$(apart "$ranks" 2>/dev/null) || far=unsaved
    [ "$code" -eq 0 ] || far=ended
    echo "$kind $code $far" | awk '
        $1 == "right" && ($2 != 0 || $3 !~ /^[0-9]/ || $3 > 1e-4) { print "not right: code " $2 ", " $3 " apart" }
        $1 == "wrong" && $2 == 0 && ($3 !~ /^[0-9]/ || $3 < 1e-3) { print "not wrong: " $3 " apart" }'
    echo "$kind $code $far" >"$work/truth"
}

# ---- rows ----

declare -A counts=([equal]=0 [first]=0 [listed]=0 [other]=0 [fair]=0 [accused]=0)

# row KIND ROW
row() {
    local kind=$1 program ranks rate pattern='' words why rates begin=${EPOCHREALTIME/./}
    IFS='|' read -r program ranks rate pattern <<<"$2"
    program=$(trim "$program") ranks=${JURY_RANKS:-$(trim "$ranks")} rates=${JURY_RATES:-$(trim "$rate")} pattern=$(trim "$pattern")
    if [ "${#wanted[@]}" -gt 0 ]; then
        [[ " ${wanted[*]} " == *" ${program#* } "* || " ${wanted[*]} " == *" ${program%% *} "* ]] || return 0
    elif [ "$soak$truth" = 00 ] && [[ $pattern != *ci ]]; then
        return 0
    fi
    pattern=$(trim "${pattern%ci}") pattern=$(trim "${pattern%|}")
    read -ra words <<<"$program"
    words[0]=$build/tests/tools/check/jury/${words[0]}
    for rate in $rates; do
        if [ "$truth" = 1 ]; then
            why=$(try_truth "$kind" "$ranks" "$rate" "${words[@]}")
            if [ -z "$why" ]; then ok "$kind, $program: $(cat "$work/truth")"; else not_ok "$kind, $program" "$why"; fi
            continue
        fi
        rm -f "$work/verdict.json"
        run "$ddprun" check -n "$ranks" --json "$work/verdict.json" "${words[@]}" --rate "$rate"
        why=$(judged "$kind" "${pattern:-.}")
        counts[${why%% *}]=$((counts[${why%% *}] + 1))
        [ "${JURY_SAY:-0}" = 0 ] || echo "    $why"
        if [[ $why =~ ^(first|listed|other|fair) ]]; then
            ok "$kind, $program, rate $rate: ${why%% *}, $(((${EPOCHREALTIME/./} - begin) / 1000)) ms"
        elif [ -n "${known[$program]:-}" ]; then
            echo "known - $kind, $program, rate $rate: ${why%% *}: ${known[$program]}"
        else
            not_ok "$kind, $program, $ranks ranks, rate $rate" "$why"
        fi
    done
}

cd "$work" || exit 1
for each in "${wrong_rows[@]}"; do row wrong "$each"; done
for each in "${right_rows[@]}"; do row right "$each"; done
[ "$truth" = 0 ] || finish
wrong=$((counts[equal] + counts[first] + counts[listed] + counts[other]))
printf 'wrong: %d; equal %d, cause first %d, in a list %d, another cause %d\nright: %d; accused %d\n' "$wrong" "${counts[equal]}" \
    "${counts[first]}" "${counts[listed]}" "${counts[other]}" $((counts[fair] + counts[accused])) "${counts[accused]}"
check "the true cause comes first in 80 of 100" [ $((100 * counts[first])) -ge $((80 * wrong)) ]
check "the true cause is listed in 95 of 100" [ $((100 * (counts[first] + counts[listed]))) -ge $((95 * wrong)) ]
finish
