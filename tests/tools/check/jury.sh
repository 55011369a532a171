# shellcheck shell=bash disable=SC2154 # judge.sh sources it
# jury.sh - with JUDGE_TRUTH=1 the rows of jury.txt themselves are tried, without `check`: what one process and several keep is the same,
# but for rounding, of right programs only. At 1e-3 where the row's rate is less: below, nothing is kept but rounding.

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

# try_truth: the row of judge_once(); prints why it is not as its kind says, or nothing.
try_truth() {
    local far at
    at=$(awk -v rate="$rate" 'BEGIN { print rate < 1e-3 ? 1e-3 : rate }')
    rm -f "$work"/alone.* "$work"/ranks.*
    JURY_SAVE=$work/alone run "$ddprun" -q -n 1 "${command[@]}" --rate "$at"
    [ "$code" -eq 0 ] || { echo "one process ends with $code" && return; }
    JURY_SAVE=$work/ranks run "$ddprun" -q -n "$n" "${command[@]}" --rate "$at"
    far=$(apart "$n" 2>/dev/null) || far=unsaved
    [ "$code" -eq 0 ] || far=ended
    echo "$kind $code $far" | awk '
        $1 == "right" && ($2 != 0 || $3 !~ /^[0-9]/ || $3 > 1e-4) { print "not right: code " $2 ", " $3 " apart" }
        $1 == "wrong" && $2 == 0 && ($3 !~ /^[0-9]/ || $3 < 1e-3) { print "not wrong: " $3 " apart" }'
}
