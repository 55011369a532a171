#!/usr/bin/env bash
# pool.sh BUILD - a transformer with a step of hundreds of operations, whose tensors all lie in one allocation of 64 MiB: `ddprun scout`
# finds exactly the memory that its updates write, as where each tensor has memory of its own.
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
    works "$where" "$ddprun" -q --device softgpu scout --by state --json "$work/$where.json" "$program" $where 12 2
    found=$(trained "$work/$where.json")
    report "$where: what updates write" "$([ "$found" = "$wanted" ] || echo "$found bytes, not $wanted")"
    check "$where: all operations of a step" grep -q '^a step is 230 GPU operations' "$work/stdout"
done
finish
