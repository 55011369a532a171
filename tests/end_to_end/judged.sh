#!/usr/bin/env bash
# judged.sh BUILD - nothing that was judged wrong leaves the program: a trainer that saves after each step has saved no step that is
# wrong when the job has ended, on whatever rank that was found; the line and the summary name the last step that is right; and
# --max-restarts does not begin anew.
source "$(dirname "$0")/lib.sh"
limit=90
judged=$build/tests/trainers/judged
file=$work/saved
summary=$work/summary.json

# trains MODE US OPTIONS...: two ranks.
trains() {
    rm -f "$file" "$file.new"
    run "$ddprun" -n 2 --summary-json "$summary" "${@:3}" "$judged" "$1" "$file" "$2"
}

figure() { # KEY
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$summary" "$1"
}

# saved_right RIGHT: the file holds no later step than RIGHT, and of that one what two ranks have when they average.
saved_right() {
    [ ! -e "$file" ] || awk -v right="$1" '$1 > right || $2 != -0.75 * $1 || $3 != -0.75 * $1 { exit 1 }' "$file"
}

# wrong NAME MODE US RIGHT PATTERN OPTIONS...: the job ends, and what is saved is right.
wrong() {
    trains "$2" "$3" "${@:6}"
    failed_with "$1: ends the job" 1 "$5.* Step $4 is the last that is known to be right: continue from a checkpoint of step $4 or earlier"
    check "$1: no wrong step is saved: $(cat "$file" 2>/dev/null)" saved_right "$4"
    check "$1: the summary has the last right step" [ "$(figure last_right_step)" = "$4" ]
}

again=', in the order of a backward pass. Either DDP_STEP was left out'
more='earlier steps had no such write'
for seed in '' 1 2; do
    [ -z "$seed" ] || export SOFTGPU_UNRULY=$seed
    for us in 0 1000 100000; do
        [ "$us" -eq 0 ] || in_turn 3 || continue
        name="${seed:+, order $seed}, $us us"
        wrong "another pass$name" late "$us" 9 "in step 10 add wrote gradient 2 of 2 .*$again"
        wrong "another pass, several buckets$name" late "$us" 9 "in step 10 add wrote gradient 2 of 2 .*$again" --bucket-mb 0.004
        wrong "one write more$name" one "$us" 9 "rank [01]: in step 10 add wrote gradient 2 of 2 .*$more" --bucket-mb 0.004
        wrong "one write more on rank 1 alone$name" alone "$us" 9 "rank 1: in step 10 add wrote gradient 2 of 2 .*$more" --bucket-mb 0.004
        wrong "an epoch with more passes$name" epoch "$us" 9 "in step 10 add wrote gradient 2 of 2 .*$again"
        check "an epoch with more passes$name: it was not saved" [ ! -e "$file" ]
        wrong "an address that a kernel has stored$name" escape "$us" 3 "was changed after it had been averaged and before DDP_STEP number 4,"
    done
done
unset SOFTGPU_UNRULY

# Rank 0 has passed that step before rank 1 does anything wrong: it may have saved it. The line says from where to continue.
trains skip 0
failed_with "DDP_STEP is left out on one rank: that is said, and named are rank and step" 1 \
    "rank 1: in step 10 .*$again of this step: .* Step 9 is the last that is known to be right"
trains weight 0
failed_with "weights that do not add up" 1 "in step 10 the counts of all ranks add up to 2, and the total is 3; .* Step 9 is the last that is known to be right"

trains read 0
succeeded "a late read ends nothing"
check "a late read: no step is wrong" [ "$(figure last_right_step)" = None ]
check "a late read: all is saved" grep -q '^40 -30 -30$' "$file"
check "a late read: the first checked steps, and it, were waited for: $(figure judgement_waits)" [ "$(figure judgement_waits)" -le 8 ]

# Rank 0 waits for rank 2, which is slow, and rank 1 waits for rank 0 in the buckets of later steps: that is no deadlock.
rm -f "$file"
run "$ddprun" -n 3 --bucket-mb 0.004 "$judged" ahead "$file" 0
succeeded "a rank that waits for a slow one's judgement, while others are ahead"
check "all steps of three ranks are saved: $(cat "$file")" grep -q '^40 -40 -40$' "$file"

trains leave 0 --timeout 60
failed_with "a rank that ends, while another waits for its judgement" 1 \
    "rank 1.* waits .*at the end of the program.* after 9 steps, .*rank 0.* waits for it .*: all ranks must make the same ddprun calls"

trains late 0 --max-restarts 4
check "--max-restarts: exit code 1, not $code" [ "$code" -eq 1 ]
check "--max-restarts: it is said why there is no restart" grep -q '^ddprun: no restart: a step of the program was wrong' "$work/stderr"
check "--max-restarts: no restart" bash -c "! grep -q '^ddprun: restart ' '$work/stderr'"
check "--max-restarts: no wrong step is saved" saved_right 9
finish
