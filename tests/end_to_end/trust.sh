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

# The device works for 40 ms in each step. The thread in DDP_STEP sleeps until the verdict is there: one that looked every 0.05 ms would
# take the processor from whatever works meanwhile, 400 times.
for options in "--commit wait" "--commit trust"; do
    # shellcheck disable=SC2086 # options are words
    SOFTGPU_COPY_US=20000 DDPRUN_TEST_TRUST_AFTER=2 run "$ddprun" -n 2 --bucket-mb 0.01 $options "$build/tests/trainers/loading" reads 12 0
    succeeded "waits $options"
    mapfile -t slept < <(grep -oE 'slept [0-9]+' "$work/stdout" | grep -oE '[0-9]+')
    check "waits $options: both ranks say how often they slept: ${slept[*]}" [ "${#slept[@]}" -eq 2 ]
    for count in "${slept[@]}"; do
        check "waits $options: the wait in DDP_STEP is one, not $count" [ "$count" -le 40 ]
    done
done
finish
