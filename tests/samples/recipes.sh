#!/usr/bin/env bash
# recipes.sh BUILD - the programs of docs/recipes.md (samples/recipes/*.cu): each prints with 2 and 3 ranks what it prints alone, and `ddprun check`
# finds it equal. Each has at most 80 lines, and the page names it. Samples that are drawn by one seed per rank are other samples, and
# ddprun reports ranks that all draw the same.
source "$(dirname "$0")/../end_to_end/lib.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)
recipes=$build/samples/recipes

# trains NAME ARGUMENTS...: alone as with ranks.
trains() {
    local program=("$recipes/$1" "${@:2}") ranks
    run env "LD_LIBRARY_PATH=$build/lib/softgpu" "${program[@]}"
    check "$*: alone" [ "$code" -eq 0 -a -s "$work/stdout" ]
    cp "$work/stdout" "$work/alone"
    for ranks in 2 3; do
        run "$ddprun" -n "$ranks" --device softgpu --check-every 1 "${program[@]}"
        check "$*: $ranks ranks print what one process prints" cmp "$work/stdout" "$work/alone"
    done
    in_turn 4 || return 0
    run "$ddprun" --device softgpu check "${program[@]}"
    check "$*: check finds it equal" grep -q '^equal: 2 ranks compute what one process computes' "$work/stdout"
}

for source in "$root"/samples/recipes/*.cu; do
    name=$(basename "$source" .cu)
    check "$name: at most 80 lines" [ "$(wc -l <"$source")" -le 80 ]
    check "$name: docs/recipes.md names it" grep -qF "(../samples/recipes/$name.cu)" "$root/docs/recipes.md"
    trains "$name"
done
trains fused fused
run "$ddprun" -n 2 --device softgpu "$recipes/grow"
check "grow: it has grown and shrunk" awk '{ n[NR] = $3 } END { exit !(n[2] > n[1] && n[NR] < n[2]) }' "$work/stdout"

run "$ddprun" -n 2 --device softgpu "$recipes/draws" seeds
check "a seed for each rank: other samples" bash -c "grep -q '^w' '$work/stdout' && ! grep -q 'train on the same data' '$work/stderr'"
run "$ddprun" -n 2 --device softgpu "$recipes/draws" alike
check "one seed for all ranks is reported" grep -q 'the gradients of all 2 ranks are equal, bit for bit, .* all ranks train on the same data' "$work/stderr"
finish
