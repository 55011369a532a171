#!/usr/bin/env bash
# libraries.sh BUILD - gradients that calls of cuBLAS and cuBLASLt write are averaged as one process would have them, and early: out of
# epilogues, rank-1 updates, and a batch that goes round the biases in one buffer. Through arrays of pointers they are right too. A
# call that writes a gradient too late is named with its argument.
# shellcheck source=tests/end_to_end/lib.sh
source "$(dirname "$0")/lib.sh"
limit=90
libraries=$build/tests/trainers/libraries

# equal WAY RANKS: N ranks against $work/serial.
equal() {
    local name="$1, $2 ranks" rank
    rm -rf "$work"/rank-* "$work/trace"
    run "$ddprun" -n "$2" --check-every 1 --bucket-mb 0.003 --trace "$work/trace" "$libraries" --way "$1" --save "$work/rank-%d"
    succeeded "$name: ends well"
    for ((rank = 1; rank < $2; rank++)); do
        check "$name: ranks 0 and $rank are bitwise the same" cmp "$work/rank-0" "$work/rank-$rank"
    done
    if [ "$2" -eq 1 ]; then
        check "$name: bitwise the bare program" cmp "$work/rank-0" "$work/serial"
    else
        check "$name: serial up to summation order" "$compare" --quiet "$work/rank-0" "$work/serial" 1e-5
    fi
}

for way in lt vectors strided batched; do
    run "$libraries" --way "$way" --save "$work/serial"
    succeeded "$way alone"
    equal "$way" 1
    equal "$way" 2
    [ "$way" = batched ] || check "$way: overlaps" grep -q '"early":true' "$work/trace/rank-0.jsonl"
    SOFTGPU_CHAOS=3 equal "$way" 3
done

run "$ddprun" -n 2 --bucket-mb 0.003 "$libraries" --way late
failed_with "a late call that writes nothing at first" 1 "cublasSscal_v2 argument x wrote gradient .gradient\(l\). .* after bucket"
finish
