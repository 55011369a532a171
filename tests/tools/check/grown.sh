#!/usr/bin/env bash
# grown.sh BUILD - `ddprun check --batch-grows` of programs that update after each record (grown.cu): what is right on N ranks is
# equal to the mean of what one rank computes of each rank's record, and what is wrong is not.
# shellcheck source=tests/end_to_end/lib.sh
source "$(dirname "$0")/../../end_to_end/lib.sh"
# shellcheck source=tests/tools/check/lib.sh
source "$(dirname "$0")/lib.sh"
grown=$build/tests/tools/check/grown
watch_leftovers

# judged NAME CODE CAUSES TENSOR RANKS OPTIONS PROGRAM...: checked() of lib.sh has this verdict.
judged() {
    in_turn 3 || return 0
    checked "$5" "$6" "${@:7}"
    report "$1" "$(why_not "$2" "$3" "$4")"
}

for habit in plain momentum adam seeded dealt together fused fused_seeded fused_sum; do
    judged "$habit" 0 null - 2 --batch-grows "$grown" "$habit"
done
for habit in plain fused; do
    judged "$habit, three ranks" 0 null - 3 "--batch-grows --steps 20" "$grown" "$habit"
done

while read -r habit ranks cause tensor; do
    judged "$habit, $ranks ranks" 1 "$cause" "$tensor" "$ranks" --batch-grows "$grown" "$habit"
done <<'END'
sum 2 scale -
divided 3 scale -
forgotten 2 unannotated memory
same 3 same_batch -
rate 2 update parameter
early 2 start parameter
fused_rate 3 scale -
fused_forgotten 2 unannotated memory
END
judged "--reduce sum" 1 scale gradient 2 "--reduce sum --batch-grows" "$grown" plain

run "$ddprun" -q -n 2 check --batch-grows "$grown" split
failed_with "one record that ranks share" 2 "gives a rank 6 of one rank's 12 in each step; leave --batch-grows out"

while read -r option; do
    run "$ddprun" -q check --batch-grows $option "$grown"
    failed_with "$option" 2 "${option%% *} and --batch-grows contradict each other"
done <<'END'
--reference reference
--alone x
--free
END
check "leaves nothing" test -z "$(ls -A "$TMPDIR")"
finish
