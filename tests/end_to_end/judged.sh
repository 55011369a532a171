#!/usr/bin/env bash
# judged.sh BUILD - no step that is wrong leaves the program, and no step that is right ends it: a trainer that saves after each step.
#
# A gradient that is written once more after its bucket's launch, in whatever way, on whatever rank, is averaged as DDP_STEP finds it.
# What is judged wrong is in no file when the job has ended; the line and the summary name the last step that is right; and
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

# right NAME MODE US WEIGHTS OPTIONS...: the job ends well, and so are the weights of the last step.
right() {
    trains "$2" "$3" "${@:5}"
    succeeded "$1"
    check "$1: the last step is right: $(cat "$file" 2>/dev/null)" grep -qx "40 $4" "$file"
    check "$1: no step was wrong" [ "$(figure last_right_step)" = None ]
}

for seed in '' 1 2; do
    [ -z "$seed" ] || export SOFTGPU_UNRULY=$seed
    for us in 0 1000 100000; do
        [ "$us" -eq 0 ] || in_turn 3 || continue
        name="${seed:+, order $seed}, $us us"
        right "another pass$name" late "$us" "-30.75 -30.75"
        right "another pass, several buckets$name" late "$us" "-30.75 -30.75" --bucket-mb 0.004
        right "one write more, after its stream has paused$name" slow "$us" "-30 -30.75" --bucket-mb 0.004
        # A device that lags packs what the second write has left: only a stream that pauses is late for certain.
        [ -n "$seed" ] || check "one write more, after its stream has paused$name: it was sent once more" [ "$(figure repaired_steps)" -ge 1 ]
        right "one write more$name" one "$us" "-30 -30.75" --bucket-mb 0.004
        right "one write more on rank 1 alone$name" alone "$us" "-30 -30.5" --bucket-mb 0.004
        right "an epoch with more passes$name" epoch "$us" "-126 -126"
        right "an address that a kernel has stored$name" escape "$us" "-30 -30"
    done
done
unset SOFTGPU_UNRULY

trains skip 0 --bucket-mb 0.004
failed_with "DDP_STEP is left out on one rank: that is said, and named are rank and step" 1 \
    "rank 1.* waits at the end of the program.*: DDP_STEP was left out on rank 1: its work before its DDP_STEP number 10 is that of two steps"
trains weight 0
failed_with "weights that do not add up" 1 "in step 10 the counts of all ranks add up to 2, and the total is 3; .* Step 9 is the last that is known to be right"

trains read 0
succeeded "a late read ends nothing"
check "a late read: no step is wrong" [ "$(figure last_right_step)" = None ]
check "a late read: all is saved" grep -q '^40 -30 -30$' "$file"
check "a late read: the first checked steps were waited for: $(figure judgement_waits)" [ "$(figure judgement_waits)" -le 8 ]

# Rank 0 waits for rank 2, which is slow, and rank 1 waits for rank 0 in the buckets of later steps: that is no deadlock.
rm -f "$file"
run "$ddprun" -n 3 --bucket-mb 0.004 "$judged" ahead "$file" 0
succeeded "a rank that waits for a slow one's judgement, while others are ahead"
check "all steps of three ranks are saved: $(cat "$file")" grep -q '^40 -40 -40$' "$file"

trains leave 0 --timeout 60
failed_with "a rank that ends, while another waits for its judgement" 1 \
    "rank 1.* waits .*at the end of the program.* after 9 steps, .*rank 0.* waits for it .*: all ranks must make the same ddprun calls"

trains weight 0 --max-restarts 4
check "--max-restarts: exit code 1, not $code" [ "$code" -eq 1 ]
check "--max-restarts: it is said why there is no restart" grep -q '^ddprun: no restart: a step of the program was wrong' "$work/stderr"
check "--max-restarts: no restart" bash -c "! grep -q '^ddprun: restart ' '$work/stderr'"
finish
