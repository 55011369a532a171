#!/usr/bin/env bash
# libraries.sh BUILD - gradients that calls of cuBLAS and cuBLASLt write are averaged as one process would have them, and early: out of
# epilogues, rank-1 updates, and a batch that goes round the biases in one buffer. Through arrays of pointers they are right too. A
# call that writes a gradient too late is named with its argument.
source "$(dirname "$0")/lib.sh"
limit=90
libraries=$build/tests/trainers/libraries

# equal WAY RANKS: N ranks of $libraries against $work/serial.
equal() {
    local name="${libraries##*/} $1, $2 ranks"
    rm -rf "$work"/rank-* "$work/trace"
    works "$name: ends well" "$ddprun" -n "$2" --check-every 1 --bucket-mb 0.003 --trace "$work/trace" "$libraries" --way "$1" --save "$work/rank-%d"
    same_on_all_ranks "$name" "$2"
    if [ "$2" -eq 1 ]; then
        check "$name: bitwise the bare program" cmp "$work/rank-0" "$work/serial"
    else
        check "$name: serial up to summation order" "$compare" --quiet "$work/rank-0" "$work/serial" "$close"
    fi
}

for way in lt vectors strided batched; do
    works "$way alone" "$libraries" --way "$way" --save "$work/serial"
    equal "$way" 1
    equal "$way" 2
    [ "$way" = batched ] || check "$way: overlaps" grep -q '"early":true' "$work/trace/rank-0.jsonl"
    SOFTGPU_CHAOS=3 equal "$way" 3
done

# cuBLAS inside the program, where its calls have no names to take: its kernels are seen, and the pointers among their arguments.
libraries_static=$build/tests/trainers/libraries_static
if [ -e "$libraries_static" ]; then
    for way in vectors strided; do
        run "$libraries" --way "$way" --save "$work/serial"
        libraries=$libraries_static equal "$way" 2
    done
    # The pointers in arrays in device memory are not arguments: the result is right, or an error is reported.
    run "$libraries" --way batched --save "$work/serial"
    run "$ddprun" -n 2 --bucket-mb 0.003 "$libraries_static" --way batched --save "$work/rank-%d"
    if [ "$code" -eq 0 ]; then
        check "batched, cuBLAS in the program" "$compare" --quiet "$work/rank-0" "$work/serial" "$close"
    else
        failed_with "batched, cuBLAS in the program" 1 "gradient [0-9]+ of [0-9]+ \(.gradient\(l\)., .* by work that ddprun did not see"
    fi
fi

# A plug-in that dlmopen(3) loads into a namespace of its own (-1) would train there alone, without hooks.
plugin=$build/tests/matrix/accumulate_plugin.so
if [ -e "$plugin" ] && command -v python3 >/dev/null; then
    printf '%s\n' 'import ctypes, sys' 'library = ctypes.CDLL(None)' 'library.dlmopen.restype = ctypes.c_void_p' \
        'sys.exit(0 if library.dlmopen(ctypes.c_long(int(sys.argv[1])), sys.argv[2].encode(), 2) else 3)' >"$work/opens.py"
    # opens RANKS NAMESPACE FILE
    opens=("$ddprun" --device softgpu --quiet)
    refusal='rank [01] loads .*accumulate_plugin.so by dlmopen into a namespace of its own, where ddprun sees no call of CUDA: .* load it by dlopen'
    fails "a plug-in in a namespace of its own" 1 "$refusal" "${opens[@]}" -n 2 python3 -IS "$work/opens.py" -1 "$plugin"
    LD_LIBRARY_PATH=$(dirname "$plugin") fails "the same, found by its name" 1 "$refusal" "${opens[@]}" -n 2 python3 -IS "$work/opens.py" -1 accumulate_plugin.so
    works "a plug-in in the program's namespace" "${opens[@]}" -n 2 python3 -IS "$work/opens.py" 0 "$plugin"
    works "another library in a namespace of its own" "${opens[@]}" -n 2 python3 -IS "$work/opens.py" -1 libm.so.6
    works "one rank, whose plug-in may be anywhere" "${opens[@]}" -n 1 python3 -IS "$work/opens.py" -1 "$plugin"
fi

works "a call after backward that writes nothing at first" "$ddprun" -n 2 --bucket-mb 0.003 "$libraries" --way late
finish
