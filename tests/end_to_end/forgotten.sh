#!/usr/bin/env bash
# forgotten.sh BUILD - a job says that launches train memory without an annotation, because it was forgotten or moved, and asks for `ddprun
# check`, which names the memory: in programs with own kernels and cuBLAS, several optimizers, memory of their own, pools and arenas. Right
# programs that look alike hear nothing.
source "$(dirname "$0")/lib.sh"
asks=any # lib.sh: such lines are looked at here
forgotten=$build/tests/trainers/forgotten

# trains MODE OPTIONS...
trains() {
    run "$ddprun" -n 2 "${@:2}" "$forgotten" "$1" 40
}

# says NAME CODE PATTERN...: it ended with CODE, and each pattern is in one line.
says() {
    local name=$1 pattern
    check "$name: exit code $2" [ "$code" -eq "$2" ]
    for pattern in "${@:3}"; do
        check "$name: /$pattern/" [ "$(grep -cE "^ddprun: .*($pattern)" "$work/stderr")" -eq 1 ]
    done
}

# updated KERNEL ARGUMENT: the pattern of the line.
updated() {
    printf '3 launches of %s( after the last DDP_STEP)? have changed memory without annotation .argument %s, 0x[0-9a-f]+., as %s updates .* Run ddprun check' "$1" "$2" "$1"
}

# Gradients that moved are those of annotated parameters, which differ then; what was freed is known at once.
while read -r mode ends pattern; do
    trains "$mode"
    says "$mode" "$ends" "$pattern"
done <<'EOF'
moved-gradients 1 parameter 2 of 4 .* differs between
moved-freed 1 after step 12: gradient 2 of 4 .* was freed and not annotated again
moved-weights-freed 1 after step 12: parameter 2 of 4 .* was freed and not annotated again
EOF
while read -r mode kernel argument options; do
    trains "$mode" $options
    says "$mode $options" 0 "$(updated "$kernel" "$argument")"
done <<EOF
moved sgd 1
moved sgd 1 --no-overlap
moved-one sgd 1
moved-small sgd 1
moved-in-arena sgd 1
moved-adam adam 1
moved-async sgd_clears 1
forgotten sgd 1
forgotten sgd 1 --no-overlap
forgotten sgd 1 --trace $work/trace
forgotten-small sgd 1
forgotten-clears sgd_clears 1
forgotten-momentum momentum 1
forgotten-adam adam 1
forgotten-struct [a-z_]+ 1
forgotten-saxpy cublasSaxpy_v2 6
forgotten-axpy axpy 1
forgotten-in-arena adam 1
second sgd 1
EOF
# The averaged gradients reach each rank's moved weights: ranks do not differ.
trains moved-weights
says "moved-weights" 0
check "moved-weights: nothing is said" not_asked "$work/stderr"
trains forgotten-gradient --no-overlap
says "forgotten-gradient, compared in the first steps without overlap" 1 'parameter 2 of 4 .* differs between ranks 0 and 1 after step 2:'

# `ddprun check` names what the job has counted. Here each rank wants another value: that is found beside it.
for mode in moved-one forgotten-adam; do
    run "$ddprun" -q check -n 2 "$forgotten" "$mode" 40
    check "check $mode" [ "$code" -eq 1 ]
    check "check $mode: the memory" grep -Eq 'unannotated memory [0-9]+, which `(sgd|adam)` writes \(argument 1\)' "$work/stdout"
done

# The line stands in the summary, in the trace of the rank that said it, in its timeline and on the page, as it was printed.
trains forgotten --trace "$work/kept" --summary-json "$work/summary" --page "$work/page"
says "forgotten, with all outputs" 0 "$(updated sgd 1)"
check "the summary, the trace, its timeline and the page have the warning" "$ddprun" trace "$work/kept" -o "$work/timeline"
cat >"$work/kept.py" <<'END'
import glob, html, json, re, sys
folder, stderr = sys.argv[1:]
said, = [line[8:].rstrip("\n") for line in open(stderr) if " have changed memory without annotation " in line]
found, = [each for each in json.load(open(folder + "/summary"))["warnings"] if each["key"] == "forgotten_tensor"]
assert found["text"] == said[:383] and found["count"] == 1 and 3 <= found["step"] < 40, found
lines = [json.loads(line) for line in open(f"{folder}/kept/rank-{found['rank']}.jsonl")]
line, = [line for line in lines if line.get("warning") == "forgotten_tensor"]
assert (line["after_step"], line["text"]) == (found["step"], found["text"]) and line["at_ns"] > lines[0]["at_ns"], line
event, = [e for e in json.load(open(folder + "/timeline"))["traceEvents"] if e["name"] == "warning: forgotten_tensor"]
assert (event["ph"], event["pid"], event["args"]["text"]) == ("i", found["rank"], found["text"]), event
section = re.search("<section id='warnings'>.*?</section>", open(folder + "/page").read(), re.S)[0]
assert ">forgotten_tensor</td>" in section and found["text"] in html.unescape(section), section
END
check "they say the same of it" python3 "$work/kept.py" "$work" "$work/stderr"

for mode in right right-adam right-again right-scratch right-velocity right-reduced right-evaluates right-frozen; do
    trains "$mode" --summary-json "$work/summary"
    check "$mode: exit code" [ "$code" -eq 0 ]
    check "$mode: no warning is kept" [ "$(grep -c '"key"' "$work/summary")" -eq 0 ]
    check "$mode: nothing is said" not_asked "$work/stderr"
done
finish
