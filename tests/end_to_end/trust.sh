#!/usr/bin/env bash
# trust.sh BUILD - --commit trust: DDP_STEP returns before the host knows whether the averages are right. Of a step in which a gradient was
# written once more nothing leaves the device, by any way that hooks see, and the job ends by the gradient's name. By --commit wait the
# same program is right.
source "$(dirname "$0")/lib.sh"
limit=60
trusting=$build/tests/trainers/trusting
file=$work/saved
summary=$work/summary.json
export DDPRUN_TEST_TRIALS=0
watch_leftovers

# trains MODE OPTION...: two ranks.
trains() {
    rm -f "$file" "$file.new" "$summary"
    run "$ddprun" -n 2 --bucket-mb 0.004 --summary-json "$summary" "${@:2}" "$trusting" "$1" "$file"
}
trusts() { DDPRUN_TEST_TRUST_AFTER=2 trains "$1" --commit trust "${@:2}"; }

figure() { # KEY
    python3 -IS -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$summary" "$1"
}

written='rank 1 .*: step 10: gradient 2 of 2 \(`gradients\[l\]`, .*\) was written after its bucket was launched: --commit trust cannot repair that'
ways=(copy async default rows pointer graph function callback stream event device stream-query event-query free)

for mode in step end "${ways[@]}"; do
    [[ " step end copy " == *" $mode "* ]] || in_turn 3 || continue
    trusts "$mode"
    ends "$mode" 1 "$written"
    check "$mode: steps were trusted" [ "$(figure trusted_steps)" -ge 1 ]
    [ "$mode" = step ] || [ "$mode" = end ] || check "$mode: the wrong step is not saved: $(cat "$file")" grep -qx '9 -6.75' "$file"
done

# What no hook sees: the averages of a step with a stale bucket are in no gradient. Rank 0 adds 1, and updates by a half of that.
trusts unseen
check "without a call: exit code 1, not $code" [ "$code" -eq 1 ]
check "without a call: gradients keep the rank's own values: $(cat "$file")" grep -qxE '(9 -6\.75|10 -7\.25|11 .*)' "$file"

for mode in copy stream; do
    trains "$mode"
    succeeded "$mode, --commit wait: the step is repaired"
    check "$mode, --commit wait: all steps are saved: $(cat "$file")" grep -qx '20 -15.5' "$file"
done

for options in "" "--compress bf16" "-n 3"; do
    in_turn 2 || continue
    # shellcheck disable=SC2086 # options are words
    trusts right $options
    succeeded "a right program${options:+ with $options}"
    check "a right program${options:+ with $options}: steps were trusted" [ "$(figure trusted_steps)" -ge 5 ]
    check "a right program${options:+ with $options}: no repair" [ "$(figure repaired_steps)" = 0 ]
done

trains step --commit trust
succeeded "before 64 steps without a repair DDP_STEP waits"
check "before 64 steps without a repair the step is repaired" [ "$(figure repaired_steps)" = 1 ]
check "before 64 steps without a repair no step is trusted" [ "$(figure trusted_steps)" = 0 ]

# The host works for 4 ms after each DDP_STEP: what the wait there costs is reported, with the way out.
costs='the wait in DDP_STEP costs [0-9.]+ ms of a step of [0-9.]+ ms \([0-9]+ %\): .* or run with --commit trust'
loads() {
    rm -f "$summary"
    SOFTGPU_COPY_US=1500 run "$ddprun" -n 2 --bucket-mb 0.01 --summary-json "$summary" "$@" "$build/tests/trainers/loading" loads 150 4000
    succeeded "loads $*"
}
loads
check "loads: what the wait costs is reported" grep -Eq "$costs" "$work/stderr"
check "loads: and in the summary" [ "$(figure commit_wait_ms | cut -d . -f 1)" -ge 1 ]
for options in "--commit trust" --no-overlap; do
    # shellcheck disable=SC2086 # options are words
    DDPRUN_TEST_TRUST_AFTER=2 loads $options
    check "loads $options: there is no wait to report" [ "$(grep -Ec "$costs" "$work/stderr")" -eq 0 ]
done
finish
