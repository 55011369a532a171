#!/usr/bin/env bash
# jury.sh BUILD [WORDS...] - what `ddprun check` says of the wrong and right programs of jury.txt, which follow the habits of
# public trainers, at learning rates from 0.1 to 1e-6: no wrong one is equal, and no right one is accused; the true cause comes first
# in 80 of 100, and is listed in 95. Ordinarily a dozen rows run, with DDPRUN_SOAK=1 all; WORDS are programs or families, which run
# alone. JURY_RATES has other rates, JURY_RANKS other ranks; JURY_SAY=1 prints what each verdict says.
#
# With JURY_TRUTH=1 the rows themselves are tried, without `check`: what one process and several keep is the same, but for rounding,
# of right programs only. At 1e-3 where the row's rate is less: below, nothing is kept but rounding.
source "$(dirname "$0")/../../../end_to_end/lib.sh"
source "$(dirname "$0")/../lib.sh"
wanted=("${@:2}")
asks=any
truth=${JURY_TRUTH:-0} soak=${DDPRUN_SOAK:-0}

# What names the true cause: regular expressions of Python's, without regard to case.
declare -A named=(
    [place]='\b(moment|norm|average|clipped|computed|changed)\b[^.;]*(before|in front of) DDP_STEP|before they are averaged|own gradients|DDP_STEP between backward'
    [factor]='\brate|factor|times|divid|scaled|argument'
    [random]='random (numbers|bits)|noise|mask\b|seeded (by|with) (the|its) rank'
    [own]='(computed|computes) from the rank.s share alone|(statistics|sums?|means?|rankings?) of (the|a) share|share.s own (number|sum|mean|statistics)|DDP_REDUCE'
    [bare]='unannotated|not annotated|without annotation'
)

# ---- what a row is held against ----

# judged KIND PATTERN: what the last check made of the program, in one word, and what it said: equal; named, equal but for what is named
# as not compared; first, listed, other (wrong ones); fair, accused (right ones); hung.
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
# Where the first of several causes ends.
ends = ";|, (?=(?:rows|memory|weights|values|records|data|random|shares|a (?:decision|rate|term|tensor|learning|loss))\\b)"
says = lambda words: re.search(pattern, words, re.I) is not None
if code in ("124", "137"):
    word = "hung"
elif kind == "right":
    word = "fair" if code == "0" and not missing else "accused"
elif code == "0":
    unseen = re.findall("^not compared: .*", stdout, re.M)
    word = "named" if says(" ".join(unseen)) else "equal"
else:
    word = "first" if says(text + " " + re.split(ends, advice)[0]) else "listed" if says(text + " " + advice) else "other"
print(word, "code", code, found.get("cause") or "-", "|", text, "| what to do:", advice, *missing)' "$1" "$2" "$work" "$code"
}

# apart PROCESSES: how far what the ranks have kept is from what one process has, as a part of how far that has come.
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

declare -A counts=([hung]=0 [equal]=0 [named]=0 [first]=0 [listed]=0 [other]=0 [fair]=0 [accused]=0)

# row KIND ROW
row() {
    local kind=$1 program ranks rate pattern='' word words why rates verdict begin=${EPOCHREALTIME/./}
    IFS='|' read -r program ranks rate pattern <<<"$2"
    program=$(trim "$program") ranks=${JURY_RANKS:-$(trim "$ranks")} rates=${JURY_RATES:-$(trim "$rate")} pattern=$(trim "$pattern")
    if [ "${#wanted[@]}" -gt 0 ]; then
        [[ " ${wanted[*]} " == *" ${program#* } "* || " ${wanted[*]} " == *" ${program%% *} "* ]] || return 0
    elif [ "$soak$truth" = 00 ] && [[ $pattern != *ci ]]; then
        return 0
    fi
    pattern=$(trim "${pattern%ci}") pattern=$(trim "${pattern%|}")
    for word in "${!named[@]}"; do pattern=${pattern//\$$word/${named[$word]}}; done
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
        verdict="$kind, $program, $ranks ranks, rate $rate"
        if [[ $why =~ ^(named|first|listed|other|fair) ]]; then
            ok "$verdict: ${why%% *}, $(((${EPOCHREALTIME/./} - begin) / 1000)) ms"
        else
            not_ok "$verdict" "$why"
        fi
    done
}

table=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/jury.txt
cd "$work" || exit 1
while read -r kind each; do
    row "$kind" "$each"
done < <(grep -v '^#' "$table")
if [ "$truth" = 0 ]; then
    wrong=$((counts[equal] + counts[named] + counts[first] + counts[listed] + counts[other]))
    printf 'wrong: %d; equal %d, equal but for what is named as not compared %d, cause first %d, in a list %d, another cause %d\nright: %d; accused %d\n' "$wrong" "${counts[equal]}" \
        "${counts[named]}" "${counts[first]}" "${counts[listed]}" "${counts[other]}" $((counts[fair] + counts[accused])) "${counts[accused]}"
    wrong=$((${#wanted[@]} > 0 ? 0 : wrong))
    check "of $wrong the true cause comes first in 80 of 100" [ $((100 * counts[first])) -ge $((80 * wrong)) ]
    check "and is listed in 95 of 100" [ $((100 * (counts[first] + counts[listed]))) -ge $((95 * wrong)) ]
fi
finish
