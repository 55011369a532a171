#!/usr/bin/env bash
# forgotten.sh BUILD - what a program trains without an annotation, because it was forgotten or moved, is named: in programs with own
# kernels and cuBLAS, several optimizers, memory of their own, pools and arenas. Right programs that look alike hear nothing.
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

# updated KERNEL ARGUMENT GRADIENT: the pattern of the question.
updated() {
    printf 'in 3 steps( after the last DDP_STEP)? %s updated memory without annotation .argument %s, 0x[0-9a-f]+. like parameter 1 of [34] .*own gradient .argument %s, 0x[0-9a-f]+.\. ' "$@"
}

while read -r mode kernel unused; do
    for overlap in "" --no-overlap; do
        trains "$mode" $overlap
        says "$mode $overlap" 0 "$(updated "$kernel" 1 2)" "parameter $unused: not used by kernels, .* in the steps from 14 to 18"
    done
done <<'EOF'
moved sgd 1 of 4 .*4096 float32.* and 3 more tensors
moved-one sgd 2 of 4 .*1000 float32.*
moved-small sgd 4 of 4 .*10 float32.*
moved-in-arena sgd 2 of 4 .*1000 float32.*
moved-adam adam 2 of 4 .*1000 float32.*
moved-async sgd_clears 2 of 4 .*1000 float32.*
EOF
trains moved-gradients
says "moved-gradients" 1 'gradient 2 of 4 .*1000 float32.*: not used by kernels, .* in the steps from 14 to 18' 'parameter 2 of 4 .* differs between'
while read -r mode ends pattern; do
    trains "$mode"
    says "$mode" "$ends" "$pattern"
done <<'EOF'
moved-weights 0 parameter 2 of 4 .*1000 float32.*: not used by kernels, .* in the steps from 33 to 37
moved-freed 1 after step 12: gradient 2 of 4 .* was freed and not annotated again
moved-weights-freed 1 after step 12: parameter 2 of 4 .* was freed and not annotated again
EOF
while read -r mode kernel argument gradient options; do
    trains "$mode" $options
    says "$mode $options" 0 "$(updated "$kernel" "$argument" "$gradient")"
done <<EOF
forgotten sgd 1 2
forgotten sgd 1 2 --no-overlap
forgotten sgd 1 2 --trace $work/trace
forgotten-small sgd 1 2
forgotten-clears sgd_clears 1 2
forgotten-momentum momentum 1 2
forgotten-adam adam 1 2
forgotten-struct [a-z_]+ 1 1
forgotten-saxpy cublasSaxpy_v2 6 4
forgotten-axpy axpy 1 2
forgotten-in-arena adam 1 2
second sgd 1 2
EOF
trains forgotten-gradient --no-overlap
says "forgotten-gradient, compared in the first steps without overlap" 1 'parameter 2 of 4 .* differs between ranks 0 and 1 after step 2:'

# The question stands in the summary, in the trace of the rank that asked, in its timeline and on the page, as it was printed.
trains forgotten --trace "$work/kept" --summary-json "$work/summary" --page "$work/page"
says "forgotten, with all outputs" 0 "$(updated sgd 1 2)"
check "the summary, the trace, its timeline and the page have the warning" "$ddprun" trace "$work/kept" -o "$work/timeline"
cat >"$work/kept.py" <<'END'
import glob, html, json, re, sys
folder, stderr = sys.argv[1:]
said, = [line[8:].rstrip("\n") for line in open(stderr) if " updated memory without annotation " in line]
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
    check "$mode: nothing is asked" not_asked "$work/stderr"
done
finish
