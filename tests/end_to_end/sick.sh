#!/usr/bin/env bash
# sick.sh BUILD - the first rank, tensor and step with an infinite element or NaN is named, once, in a line and in the summary, and
# the job goes on, also where steps are in CUDA graphs; where the program leaves the update out, and where all is sound, nothing is said. Ordinarily a part of the runs (in_turn).
source "$(dirname "$0")/lib.sh"
sick=$build/tests/trainers/sick
names=(float32 float64 float16 bfloat16)

# train OPTIONS...: four ranks, or as `ranks` says; with `alone` each gradient has its own bucket.
train() {
    run "$ddprun" -n "${ranks:-4}" ${alone:+--bucket-mb 0.1} --device softgpu --summary-json "$work/end.json" "$sick" "$@"
}
# member NAME: of what the summary says was found.
member() { sed -n '/"nonfinite": {/,/}/s/^ *"'"$1"'": *"\{0,1\}\(.*[^",]\)"\{0,1\},\{0,1\}$/\1/p' "$work/end.json"; }
# named NAME RANK TENSOR STEP TYPE WHAT: of 6.
named() {
    local what="gradient $(($3 + 1)) of 6 (\`made->gradient\`, [0-9]* $5, sick.cu:[0-9]*) has $6"
    check "$1: a line names rank, tensor and step" [ "$(grep -c "^ddprun: rank $2: $what in step $4, before averaging; the other ranks have none up to then" "$work/stderr")" -eq 1 ]
    check "$1: there is no other" [ "$(grep -c 'before averaging' "$work/stderr")" -eq 1 ]
    check "$1: the summary names the rank" [ "$(member rank)" = "$2" ]
    check "$1: and the step" [ "$(member step)" = "$4" ]
    check "$1: and the tensor" grep -q "$what" <<<"$(member what)"
}
# finds NAME RANK TENSOR STEP TYPE WHAT OPTIONS...
finds() {
    train "${@:7}"
    named "${@:1:6}"
}
# silent NAME OPTIONS...
silent() {
    train "${@:2}"
    check "$1: nothing is said" [ "$(grep -c 'before averaging' "$work/stderr")" -eq 0 ]
    check "$1: nor in the summary" grep -q '"nonfinite": null' "$work/end.json"
}
# drawn NAME NUMBER STEP OPTIONS...: by the number, ranks, tensors, types, both ways to send, infinite and NaN, one element and all.
drawn() {
    local i=$2 what=NaN
    local rank=$((i * 7 % 4)) tensor=$((i * 5 % 6)) type=$((i / 2 % 4)) infinite=$((i / 3 % 2)) flat=$((i % 2))
    [ "$infinite" = 0 ] || what='an infinite element'
    name="$1: rank $rank, tensor $tensor, step $3, ${names[type]}, $([ "$flat" = 1 ] && echo in place || echo packed), $what"
    finds "$name" "$rank" "$tensor" "$3" "${names[type]}" "$what" --rank "$rank" --tensor "$tensor" --step "$3" --type "$type" \
        --flat "$flat" --infinite "$infinite" --whole $((i / 5 % 2)) "${@:4}"
    succeeded "$name"
}
large=(--rank 1 --count 400000 --tensors 6 --flat 1 --steps 24)

for ((i = 0; i < 10; ++i)); do
    in_turn 3 || continue
    drawn "$i" "$i" $((5 + i * 11 % 30))
done

if in_turn 3; then
    # Large, and in place: the whole tensor is seen in the same step, whichever part of its bucket is looked at.
    ranks=2 alone=1 finds "a large bucket in place" 1 1 20 float32 NaN "${large[@]}" --tensor 1 --whole 1

    # One element of it is seen in one step of sixteen. Else all ranks have it in the next step, and the line says how sure it is.
    ranks=2 train "${large[@]}" --tensor 0
    check "one element of it: the rank, or none is the first" grep -Eq '^ddprun: rank (1: gradient 1 of 6 .* in step 20, before averaging; the other|0: .* in step 21, before averaging; 2 of 2 ranks .* or one rank had them up to 15 steps before)' "$work/stderr"
fi

# In graphs, of one step and of several; captured from the first step on, and later, by a host that runs ahead, and in disorder. The graph runs on behind it.
for ((i = 0; i < 6; ++i)); do
    in_turn 3 || continue
    in_graph=$((1 + i * 5 % 4)) eager=$((i % 3 * 2))
    SOFTGPU_CHAOS=$((i + 1)) drawn "graph $i of $in_graph after $eager" "$i" $((3 + i * 11 % 30)) --ahead $((i / 2 % 2)) --graph "$in_graph" --eager "$eager"
    check "$name: in graphs" grep -Eq ' [1-9][0-9]* of them in CUDA graphs' "$work/stderr"
done

if in_turn 3; then
    # Two groups, three steps of each in a graph: DDP_STEPs are numbered across both.
    for tensor in 2 3; do
        finds "groups in a graph, tensor $tensor" 1 "$tensor" $((2 * 13 + 1 + tensor % 2)) float32 NaN --rank 1 --tensor "$tensor" --step 14 --groups 2 --graph 3
    done

    silent "an update that is left out, in a graph" --rank 1 --skip 1 --graph 2 --steps 60
    succeeded "an update that is left out, in a graph"
    silent "a weight that is infinite from the beginning, in a graph" --rank -1 --mask 1 --graph 1
    finds "in a graph, a program that ends by itself" 2 2 20 float32 NaN --rank 2 --leave 1 --graph 1
    check "in a graph, a program that ends by itself: with its exit code" [ "$code" -eq 3 ]
    ranks=2 alone=1 finds "in a graph, a large bucket in place" 1 1 20 float32 NaN "${large[@]}" --tensor 1 --whole 1 --graph 1 --eager 2
fi

finds "in the last step" 2 2 20 float32 NaN --rank 2 --steps 20
finds "in the last step of the last graph" 2 2 20 float32 NaN --rank 2 --steps 20 --graph 4 --eager 4

if in_turn 3; then
    silent "an update that is left out" --rank 1 --skip 1
    succeeded "an update that is left out"
    silent "a weight that is infinite from the beginning" --rank -1 --mask 1
    silent "such a weight, and an update that is left out" --rank 3 --mask 1 --skip 1
    finds "such a weight, and an update that is not" 3 2 20 float32 NaN --rank 3 --mask 1

    train --rank -2
    check "all ranks: no rank is the first" [ "$(grep -c 'the other ranks have none up to then' "$work/stderr")" -eq 0 ]
    check "all ranks: the training diverges" grep -Eq '^ddprun: rank 0: gradient 3 of 6 .*has NaN in step 20, before averaging; 4 of 4 ranks have infinite values or NaN in that step: the training diverges; the run (continues|has continued), and --stop-on-nan ends it$' "$work/stderr"

    train --rank 1 --parameters 1
    succeeded "parameters"
    check "parameters: rank and tensor" grep -q '^ddprun: rank 1: parameter 3 of 6 (`made->weight`.*) has NaN in step 20, before averaging; the other ranks have none' "$work/stderr"

    finds "a program that ends by itself" 2 2 20 float32 NaN --rank 2 --leave 1
    check "a program that ends by itself: with its exit code" [ "$code" -eq 3 ]
    train --rank 2 --leave 1 --skip 1
    succeeded "one that has nothing to end for"
fi

# --stop-on-nan: the job ends in the DDP_STEP after the update, on all ranks, so no rank makes that update.
# stops NAME STEP PATTERN OPTIONS...: in a line that matches; STEP, a pattern, is the last step that a rank has made.
stops() {
    rm -f "$work/end.json" "$work/end.prom"
    run "$ddprun" -n "${ranks:-4}" ${alone:+--bucket-mb 0.1} --device softgpu --stop-on-nan --summary-json "$work/end.json" \
        --metrics "$work/end.prom" "$sick" --says 1 "${@:4}"
    check "$1: exit code" [ "$code" -eq 1 ]
    check "$1: one line says why" [ "$(grep -Ec "^ddprun: $3" "$work/stderr")" -eq 1 ]
    check "$1: no other does" [ "$(grep -c '^ddprun: .*\(before averaging\|DDP_MEAN\)' "$work/stderr")" -eq 1 ]
    check "$1: step $2 is the last one of all ranks" grep -qxE "$2" <<<"$(sed -n 's/^\(\[[0-9]*\] \)\{0,1\}step //p' "$work/stdout" | sort -n | tail -n 1)"
}
# reported NAME RANK STEP: by the summary and the metrics.
reported() {
    check "$1: the summary has rank and step" [ "$(member rank) $(member step)" = "$2 $3" ]
    check "$1: and the exit code" grep -q '"exit_code": 1,' "$work/end.json"
    check "$1: the metrics have rank and step" [ "$(grep -cE "^ddprun_nonfinite_(rank\{.*\} $2|step\{.*\} $3)\$" "$work/end.prom")" -eq 2 ]
}
has='rank 1: gradient 3 of 6 \(.made->gradient., [0-9]+ float32, sick.cu:[0-9]+\) has NaN in step 5, before averaging; the other ranks have none up to then; the update has brought it into the parameters, and --stop-on-nan ends the job\. Step 4 is the last that is known to be right: continue from a checkpoint of step 4 or earlier$'
stops "--stop-on-nan" 5 "$has" --rank 1 --step 5
reported "--stop-on-nan" 1 5
SOFTGPU_CHAOS=3 stops "--stop-on-nan, a host that runs ahead" 5 "$has" --rank 1 --step 5 --ahead 1
train --rank 1 --step 5
succeeded "without --stop-on-nan the job continues"
check "without --stop-on-nan: one line says that" [ "$(grep -Ec 'rank 1: .* in step 5, .*; the run (continues|has continued), and --stop-on-nan ends it$' "$work/stderr")" -eq 1 ]
stops "--stop-on-nan in the last step" 5 'rank 1: .* has NaN in step 5, before averaging; the update has brought it into the parameters' --rank 1 --step 5 --steps 5
stops "--stop-on-nan, an infinite element" 20 'rank 2: gradient 1 of 6 .* has an infinite element in step 20' --rank 2 --infinite 1 --tensor 0
stops "--stop-on-nan, all ranks" 20 'rank 0: gradient 3 of 6 .* has NaN in step 20, before averaging, as 4 of 4 ranks have in that step' --rank -2
stops "--stop-on-nan, one element of a large bucket in place" 20 'rank 1: gradient 1 of 6 .* in step 20, before averaging; the other ranks have none' "${large[@]}" --tensor 0
ranks=2 stops "--stop-on-nan, parameters" '19|20' 'rank 1: parameter 3 of 6 .* has NaN in step 20' --rank 1 --parameters 1
stops "--stop-on-nan, groups" 14 'rank 1: gradient 3 of 6 .* has NaN in step 27, before averaging' --rank 1 --step 14 --groups 2
# A graph's steps are launched together: the next launch ends the job.
for graph in 1 3; do
    ranks=2 stops "--stop-on-nan, $graph in a graph" $((graph == 1 ? 20 : 21)) 'rank 1: .* has NaN in step 20, before averaging; the other ranks have none' --rank 1 --graph "$graph"
done
run "$ddprun" -n 4 --device softgpu --stop-on-nan --summary-json "$work/end.json" "$sick" --rank 1 --infinite 1 --skip 1
succeeded "--stop-on-nan, an update that a scaler leaves out"
check "--stop-on-nan, an update that a scaler leaves out: nothing is said" [ "$(grep -c 'before averaging' "$work/stderr")" -eq 0 ]
stops "--stop-on-nan, a mean" 4 'rank 2: DDP_MEAN `loss` \(sick.cu:[0-9]+\) has NaN after step 5, and --stop-on-nan ends the job' --rank 2 --step 5 --mean 1
reported "--stop-on-nan, a mean" 2 5
train --rank 2 --step 5 --mean 1
succeeded "a mean that is NaN, without --stop-on-nan"
run "$ddprun" -n 1 --device softgpu --stop-on-nan "$sick" --rank 0 --step 5 --mean 1
check "--stop-on-nan, one rank: a mean ends the job" [ "$code" -eq 1 ]
check "--stop-on-nan, one rank: it says what is not looked at" grep -q 'ends the job only for a DDP_MEAN that is NaN: one rank averages no gradients' "$work/stderr"

ranks=1 silent "one rank" --rank 0
succeeded "one rank"
finish
