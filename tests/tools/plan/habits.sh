#!/usr/bin/env bash
# habits.sh BUILD [PATTERN [OPTIONS OF DDPRUN...]] - the program habits/, untouched, by `ddprun --plan auto`: with each habit it trains to the weights and
# figures that its oracle says of as many ranks (habits/oracle.h), or is refused. A table is printed: what ran by gradients or by state, or the sentence that
# refused it, and the relative errors of weights and of printed figures. Wrong is what trains to others, or does not end. Ordinarily a few habits are run, on 2
# ranks; with DDPRUN_SOAK=1 all, on 2 and 3. PATTERN: only names that match it.
source "$(dirname "$0")/../../end_to_end/lib.sh"
pattern=${2:-.}
program=$build/tests/tools/plan/habits
export program ddprun work options="${*:3}"
steps=61 # no whole number of rounds
few='^(batch-hits|batch-norm-read|clip|counts|device-weight|early-first|ends-.*|half-scaling|history|host-loss|least-loss|managed|refused-copy|rnn|shuffle-host|sums-loss)$'
least=17 # of these run
ranks=2
if [ "${DDPRUN_SOAK:-0}" -eq 1 ]; then
    few=. least=91 ranks='2 3'
fi
[ "$pattern" = . ] || few=. least=0
export steps ranks DDPRUN_READS=owner

# error FILE OF: the largest difference of numbers, relative to the largest number of the lines with the same words; -: other lines.
error() {
    awk 'function number(word) { return word ~ /^-?(nan|inf|[0-9.]+(e[-+]?[0-9]+)?)$/ }
        FNR == NR { line[FNR] = $0; lines = FNR; next }
        {
            name = ""
            if (split(line[FNR], had) != NF) other = 1
            for (i = 1; i <= NF; ++i) {
                if (!number($i)) { name = name " " $i; if ($i != had[i]) other = 1; continue }
                if ($i ~ /nan|inf/ || had[i] ~ /nan|inf/) { if ($i != had[i]) other = 1; continue }
                key = name " " i; differs = $i - had[i]; size = had[i] < 0 ? -had[i] : had[i]
                if (differs < 0) differs = -differs
                if (differs > most[key]) most[key] = differs
                if (size > largest[key]) largest[key] = size
            }
        }
        END {
            for (key in most) if (largest[key] == 0) other = 1; else if (most[key] / largest[key] > error) error = most[key] / largest[key]
            if (other || FNR != lines) print "-"; else printf "%.1e\n", error
        }' "$2" "$1"
}
# within ERROR MOST: whether it is a number, and no larger.
within() {
    [ "$1" != - ] && awk "BEGIN { exit !($1 <= $2) }"
}
# sentence FILE: what ddprun says last, but for what it did.
sentence() {
    grep '^ddprun: ' "$1" | grep -v -E '^ddprun: (plan: .* (is scouted|proof .d. is made with|its file is)|  |averaged over|compared|proof .d.: passed|a round of|how fast it is|wall time|[0-9]+ (ranks|batches))' |
        tail -n 1 | sed 's/^ddprun: //'
}
# outcome HABIT PREFIX: the row, without the habit and the ranks.
outcome() {
    local of=state weights figure words code
    read -r code <"$2.code"
    if [ "$code" -ne 0 ]; then
        words="exit code $code: $(sentence "$2.err")"
        [ "$code" -lt 124 ] || words="WRONG: $words"
        echo "$words | |"
        return
    fi
    grep -qE '"by": ?"state"' "$work/cache-$1"/ddprun/plans/*.json || of=gradients
    weights=$(error "$2.weights" "$2.$of.weights")
    figure=$(error "$2.out" "$2.$of.out")
    words="by $of"
    within "$figure" 1e-4 || words="WRONG: $words, other figures"
    within "$weights" 2e-5 || words="WRONG: $words, other weights"
    echo "$words | $weights | $figure"
}
# train HABIT RANKS PREFIX OPTIONS...
train() {
    XDG_CACHE_HOME=$work/cache-$1 timeout -k 2 200 "$ddprun" -n "$2" --device softgpu --share-gpu --timeout 120 --plan auto --yes --slow $options \
        "${@:4}" "$program" "$1" --steps $steps --save "$3.weights" >"$3.out" 2>"$3.err" </dev/null
    echo $? >"$3.code"
}
# one HABIT: its lines of the table. What a refusal advises is tried.
one() {
    local n prefix advised
    for n in $ranks; do
        prefix=$work/$1-$n
        "$program" "$1" --steps $steps --oracle "$n" --save "$prefix.state.weights" >"$prefix.state.out"
        "$program" "$1" --steps $steps --oracle-gradients "$n" --save "$prefix.gradients.weights" >"$prefix.gradients.out"
        train "$1" "$n" "$prefix"
        advised=$(grep -o -m1 -E -- '--per-rank a[0-9]+' "$prefix.err" | head -n 1)
        [ -z "$advised" ] || train "$1" "$n" "$prefix" $advised
        echo "| $1 | $n | $(outcome "$1" "$prefix")${advised:+, $advised} |" >"$prefix.row"
    done
}
export -f one train outcome sentence within error

"$program" | grep -E "$pattern" | grep -E "$few" >"$work/habits"
xargs -P 2 -I{} bash -c 'one {}' <"$work/habits"
echo '| habit | ranks | outcome | weights | figures |'
echo '| --- | --- | --- | --- | --- |'
while read -r habit; do
    for n in $ranks; do
        cat "$work/$habit-$n.row"
    done
done <"$work/habits" | tee "$work/table"
while read -r habit; do
    for n in $ranks; do
        shown=$work/$habit-$n.err
        report "$habit, $n ranks: not wrong" "$(grep -o 'WRONG.*' "$work/$habit-$n.row")"
    done
done <"$work/habits"
report 'the end of a program ends no job' "$(grep '^| ends-' "$work/table" | grep -v '| by ')"
runs=$(grep -c '| [23] | by ' "$work/table")
check "$runs rows run, at least $least" test "$runs" -ge "$least"
[ -z "${HABITS_KEEP:-}" ] || cp -r "$work" "$HABITS_KEEP"
finish
