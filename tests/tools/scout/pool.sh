#!/usr/bin/env bash
# pool.sh BUILD - a transformer with a step of hundreds of operations, whose tensors all lie in one allocation of 64 MiB: `ddprun scout`
# finds exactly the memory that its updates write, as where each tensor has memory of its own. How far it is shows on a terminal.
source "$(dirname "$0")/../../end_to_end/lib.sh"
program=$build/tests/tools/scout/transformer
command -v python3 >/dev/null || skip "no python3, which reads JSON here"

# trained PLAN: bytes of memory that ranks average.
trained() {
    python3 -IS -c 'import json, sys
print(sum(it["end"] - it["begin"] for it in json.load(open(sys.argv[1]))["turns"]["memory"] if it["role"] == "state by change"))' "$1"
}

watch_leftovers
wanted=$("$program" apart 1 2 | sed -n 's/^an update writes \(.*\) bytes$/\1/p')
check "the program says what an update writes" test "${wanted:-0}" -gt 0
for where in apart pool; do
    begun=$SECONDS
    works "$where" "$ddprun" -q --device softgpu scout --by state --json "$work/$where.json" "$program" $where 12 2
    found=$(trained "$work/$where.json")
    report "$where: what updates write" "$([ "$found" = "$wanted" ] || echo "$found bytes, not $wanted")"
    check "$where: all operations of a step" grep -q '^a step is 230 GPU operations' "$work/stdout"
    check "$where: in a pipe at most a line a minute says how far it is" test "$(grep -c 'scout: [0-9]' "$work/stderr")" -le $(((SECONDS - begun) / 60))
    check "$where: and writes over no other" test "$(grep -c $'\r' "$work/stderr")" -eq 0
done
if command -v script >/dev/null; then
    run env TERM=xterm script -qec "'$ddprun' --device softgpu scout '$program' apart 12 2" /dev/null
    progress=$(tr '\r' '\n' <"$work/stdout")
    check "on a terminal: so far" grep -q 'ddprun: scout: [0-9]* operations so far, and none repeat yet$' <<<"$progress"
    check "on a terminal: how far it is" grep -qE 'ddprun: scout: [0-9]+ of 690 operations, [0-9]+ repetitions; now [a-z_]+' <<<"$progress"
    check "on a terminal: the table follows" grep -q 'a step has 230 GPU operations' <<<"$progress"
else
    echo "skip - progress on a terminal (no script(1))"
fi
finish
