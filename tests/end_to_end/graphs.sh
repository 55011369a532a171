#!/usr/bin/env bash
# graphs.sh BUILD - trainers that capture train what they would without graphs: DDP_STEP in a graph, any number of them, graphs of halves of a step, captured
# again, updated, cloned, by turns with others and with steps outside; collectives in a graph do not wait for all of backward; and ranks that do not do the
# same, or graphs that cannot be followed, end the job with a line that says why. One rank is left alone. Ordinarily a third of the runs (in_turn).
source "$(dirname "$0")/lib.sh"
limit=90
graphs=$build/tests/trainers/graphs

# trains RANKS MODE [OPTIONS...]: every weight is what it must be, and the same on all ranks after every step.
trains() {
    in_turn 3 || return
    works "$2, $1 ranks${3:+ $3}${4:+ $4}" "$ddprun" -n "$1" --bucket-mb 0.006 --check-every 1 "${@:3}" "$graphs" "$2"
}

# in_graphs COUNT: that many steps of the last run were in graphs, and buckets of them were launched early.
in_graphs() {
    check "... $1 steps in graphs, overlapped" grep -Eq " $1 of them in CUDA graphs, [1-9][0-9]* of them overlapped" "$work/stderr"
}

declare -A steps=([whole]=22 [first]=24 [late]=12 [fork]=22 [mixed]=11 [several]=66 [groups]=44 [alternate]=22 [irregular]=34
    [recapture]=22 [exec-update]=22 [clone]=22 [buffer]=22 [hidden]=22 [set-rate]=22 [thread]=22 [at-once]=44)
for mode in "${!steps[@]}"; do
    [ "$sanitized" -eq 0 ] || break # the next loop has what differs for a sanitizer
    trains 2 "$mode" && in_graphs "${steps[$mode]}"
done

# The same, whatever may be delayed is delayed, and nodes of graphs run in any order that they allow.
for mode in whole fork groups alternate buffer hidden late at-once recapture exec-update; do
    SOFTGPU_CHAOS=$((${#mode} % 3 + 1)) trains 3 "$mode" --verify && in_graphs "${steps[$mode]}"
done

# Parts of a step: graphs are touches of the gradients, as kernels are.
for mode in halves backward-only update-only forward-only; do
    SOFTGPU_CHAOS=1 trains 3 "$mode" && check "... overlapped" grep -Eq ' [1-9][0-9]* of them overlapped' "$work/stderr"
done
for mode in step-and-update by-hand child; do
    SOFTGPU_CHAOS=2 trains 2 "$mode"
done

# A capture in another thread, in the strictest mode, while this one trains; and one that the program breaks itself.
trains 2 elsewhere --verify
trains 2 capture-fails

# Collectives come after what they average, and not after everything.
trains 2 whole && check "in the graph, all but the last of six collectives wait for less than all of backward" \
    grep -q '6 collectives, 5 of them early' "$work/stdout"
trains 2 whole --no-overlap && check "in the graph, without overlap all wait" grep -q '6 collectives, 0 of them early' "$work/stdout"

# However buckets are reduced.
trains 3 late --compress bf16
trains 3 fork
works "packed buckets" "$ddprun" -n 2 --bucket-mb 0.01 --check-every 1 --trace "$work/trace" "$graphs" late
check "packed buckets: the trace shows it" grep -q '"graph":1,"entered_ns":[0-9]*,"buckets":\[{"bucket":0,"path":"kernels"' "$work/trace/rank-0.jsonl"

# A number in a batch may look like an address, on one rank, too: that is reported once, and nothing ends.
works "a number that equals an address, after the capture" "$ddprun" -n 2 --bucket-mb 0.006 "$graphs" number-later
check "a number that equals an address, after the capture: reported once" \
    [ "$(grep -c 'rank 1: in step 1[01], a copy of 65536 bytes to the device held a number that equals an address in gradient 3 of [46] .*; the graph with DDP_STEP (.*graphs_steps.h:[0-9]*) does not wait' "$work/stderr")" -eq 1 ]

# One rank: whatever it does.
for mode in whole several wrong-stream node-inside address-later number-later nested node-later one-rank-eager; do
    in_turn 3 || continue
    works "$mode, a world of one" "$ddprun" -n 1 "$graphs" "$mode"
done

# refused MODE PATTERN: the job ends with this line.
refused() {
    in_turn 3 || return 0
    fails "$1" 1 "$2" "$ddprun" -n 2 --bucket-mb 0.006 --timeout 60 "$graphs" "$1"
}
refused one-rank-eager "rank 1 waits at DDP_STEP .graphs_steps.h:[0-9]+. outside of a CUDA graph.*CUDA graph 1 of step 11"
refused one-rank-other-graph "ranks 0 and 1 do different things after step 11: the launch of CUDA graph 2 .*the launch of CUDA graph 1|ranks 1 and 0 do different things"
refused one-rank-captures "reached different places|waits at a (captured DDP_STEP|DDP_STEP in a capture)"
refused one-rank-captures-more "rank 0 is at the end of a capture with DDP_STEP, after step 2, rank 1 at a captured DDP_STEP"
refused one-rank-fails "has failed on rank 0 and not on rank 1"
refused wrong-stream "DDP_STEP .*graphs.cu:[0-9]+. names a stream that is not captured"
refused node-inside "stands in a capture that cuGraphAddKernelNode.* has changed"
refused freed "is launched after gradients or buffers were annotated, freed or forgotten: capture it again"
refused freed-weight "parameter [0-9]+ of [0-9]+ \(.weights\[l\]., .* was freed and not annotated again"
refused address-later "is launched after a gradient's address was copied to the device"
refused nested "cuGraphAddChildGraphNode makes a graph in which DDP_STEP .* was captured a part of another"
refused node-later "cuGraphAddKernelNode.* changes a graph in which DDP_STEP .* was captured"
refused other-gradient "cuGraphExecKernelNodeSetParams.* changes a graph in which DDP_STEP .* was captured"
finish
