#!/usr/bin/env bash
# graph_corners.sh BUILD - what was once known does not make a captured step wrong: streams, graphs and gradients that are other than they were end the job with
# a line, or the averages wait for all that they need; and ranks whose parameters have parted are found out between launches of graphs with many steps.
source "$(dirname "$0")/lib.sh"
limit=90
corners=$build/tests/trainers/graph_corners

corner() { # MODE OPTIONS...
    run "$ddprun" -n 2 --bucket-mb 0.004 "${@:2}" "$corners" "$1"
}

corner drawn-in
succeeded "a stream that is drawn into a capture after a kernel outside: averages wait for its hidden work"
corner undeclared
succeeded "gradients declared complete in steps before, and not in the captured one: averages wait for their hidden work"
check "... the steps before had overlapped" grep -Eq ' 16 of them in CUDA graphs, [12][0-9] of them overlapped' "$work/stderr"

corner copied-by-hand
succeeded "addresses copied by a node of a graph that was built by hand"
check "... are known" grep -q '2 of 4 gradients are averaged at DDP_STEP.* copied to the device' "$work/stderr"

corner forgotten
failed_with "all gradients forgotten after the capture" 1 "is launched after gradients or buffers were annotated, freed or forgotten"
corner other-node
succeeded "a node of a graph, while an executable graph is older"

corner own-graph
failed_with "DDP_STEP in a capture into a graph of the program's own" 1 \
    "DDP_STEP \(.*graph_corners.cu:[0-9]+\) stands in a capture into a graph of the program's own \(cuStreamBeginCaptureToGraph\), .*capture the step with cuStreamBeginCapture"
corner own-graph-part
succeeded "backward in a graph of the program's own, and DDP_STEP outside"

# Ten steps a launch, --check-every 50: never a multiple of it, and past it all the same.
corner diverges --check-every 1000
failed_with "parameters part after the first of ten-step graphs" 1 "differs between ranks 0 and 1 after step 10:"
corner diverges-later --check-every 75
failed_with "parameters part later" 1 "differs between ranks 0 and 1 after step 80:"

# Captures of the program's own are not broken by waiting for the whole device.
corner open
failed_with "a capture is open at the first step" 1 "ddprun must wait for the whole device, and a stream is being captured"
corner ends-within
succeeded "the program ends within a capture"
check "... and ddprun reports it" grep -q '^ddprun: the program ends within a capture' "$work/stderr"
corner destroyed
succeeded "a stream is destroyed within its capture"

# A graph takes longer than ranks wait for each other.
if [ "${DDPRUN_SOAK:-0}" != 0 ]; then
    corner slow --timeout 8
    succeeded "a graph that takes longer than --timeout"
fi

for mode in drawn-in undeclared forgotten other-node own-graph own-graph-part; do
    works "$mode, a world of one" "$ddprun" -n 1 "$corners" "$mode"
done
finish
