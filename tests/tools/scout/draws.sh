#!/usr/bin/env bash
# draws.sh BUILD - programs that differ from run to run: what draws its weights anew (draws.cu) draws the same in all runs of `ddprun scout`,
# also in another scout of the day, and with eight other draws the answer is the same; so is that on a program whose sums depend on
# the order of atomics, with four workers. With DDPRUN_SOAK=1 twenty runs of that.
source "$(dirname "$0")/../../end_to_end/lib.sh"
programs=$build/tests/tools/scout
scouts=("$ddprun" -q --device softgpu scout -v)

# answer WORDS...: the table, or the refusal, in $work/answer.
answer() {
    run "${scouts[@]}" "$@"
    grep -hE '^(a step|  (parameter|gradient|optimizer|moving|statistics|carried|random|suspect) |group |annotations|missing|superfluous|ddprun: )' \
        "$work/stdout" "$work/stderr" >"$work/answer"
}

answer "$programs/draws" "$work/drawn"
check "draws: found as it is annotated" grep -q '^annotations: each' "$work/answer"
cp "$work/answer" "$work/first"
answer --prove "$programs/draws" "$work/drawn"
check "draws: proof (d)" grep -q '^proof (d): passed' "$work/stdout"
check "draws: two scouts draw the same" test "$(wc -l <"$work/drawn")" -eq 2 -a "$(sort -u "$work/drawn" | wc -l)" -eq 1
for day in {1..8}; do
    _DDPRUN_FILES_DATE="$((1700000000 + day * 86400))000000 0" answer "$programs/draws" "$work/drawn"
    check "draws, the $day. other one: the same answer" cmp "$work/first" "$work/answer"
done
check "draws: they were others" test "$(sort -u "$work/drawn" | wc -l)" -eq 9
answer "$programs/draws" "$work/drawn" bias
check "a bias that is updated by its delta: its change is averaged" grep -q '^  parameter .*no gradient of its own$' "$work/answer"

export SOFTGPU_WORKERS=4
times=$((${DDPRUN_SOAK:-0} == 1 ? 20 : 4))
for ((i = 1; i <= times; ++i)); do
    answer "$programs/habits" atomics
    [ -e "$work/atomics" ] || cp "$work/answer" "$work/atomics"
    check "atomics, run $i: the same answer" cmp "$work/atomics" "$work/answer"
done
check "atomics: found as it is annotated" grep -q '^annotations: each' "$work/atomics"
finish
