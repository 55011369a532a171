#!/usr/bin/env bash
# reads.sh BUILD - owner reads: what the host reads by a plan, and prints, or acts on, is what one process reads that averages as many
# batches, wherever the copy stands. Without the exchange it is not. A rank that ends, or is killed, while others wait for what it
# has computed ends the job with one line, and leaves nothing. What cannot be exchanged is refused by name.
source "$(dirname "$0")/../../end_to_end/lib.sh"
watch_leftovers
install_broken
reads=$build/tests/tools/scout/reads
cd "$work" || exit 1

# by_plan DDPRUN RANKS HABIT OPTIONS...
by_plan() {
    run "$1" -n "$2" --device softgpu --share-gpu --timeout 60 --plan "$3.json" "${@:4}" "$reads" "$3" --steps 60
    cp "$work/stdout" by_plan.txt
}

# Whether the last job has printed what one process prints that averages RANKS batches. Sums of three are rounded otherwise.
is_true() { # RANKS HABIT
    run "$ddprun" -n 1 --device softgpu "$reads" "$2" --average "$1" --steps 60
    awk 'NR == FNR { line[NR] = $0; count = NR; next }
         { split(line[FNR], one, " "); for (i = 1; i <= NF; ++i) if ((d = $i - one[i]) > 1e-5 || d < -1e-5) exit 1 }
         END { exit FNR != count || count == 0 }' "$work/stdout" by_plan.txt
}

for habit in each late tenth behind async rows norm length stops plateau factor; do
    planned $habit $habit.json "$reads" $habit
    for n in 2 3 4; do
        in_turn 3 || continue
        by_plan "$ddprun" $n $habit
        ends "$habit, $n ranks" 0 'bitwise identical'
        check "$habit, $n ranks: the figures of one process" is_true $n $habit
    done
    in_turn 3 || continue
    DDPRUN_MUTANT=PLAN_READS_OWN by_plan "$broken/bin/ddprun" 2 $habit
    check "$habit: without the exchange they are others" test "$(is_true 2 $habit && echo true)" != true
done

# ---- how many there are differs from step to step ----
for mutant in none SCOUT_ALL_COMPARED SCOUT_READS_KEPT; do
    run env DDPRUN_MUTANT=$mutant "$broken/bin/ddprun" -q --device softgpu scout "$build/tests/tools/plan/unseen" finds-label --steps 41
    check "copies whose number differs, with mutant $mutant: a step is found, or not" test "$((code == 0))" -eq "$([ $mutant = none ] && echo 1 || echo 0)"
done

# ---- what ends a job ----
cp each.json leaves.json
cp each.json dies.json
by_plan "$ddprun" 3 leaves
ends "a rank that ends" 1 'rank 1 has ended, and in batch [0-9]+ of the program cuMemcpyDtoH_v2 reads what|rank 1 at the end of the program, before its last averages'
by_plan "$ddprun" 3 dies
ends "a rank that is killed" 137 'rank 1 was ended by SIGKILL'
planned thread thread.json "$reads" thread
by_plan "$ddprun" 2 thread
ends "a thread that launches nothing" 1 'is made by a thread that launches nothing: the batch that it reads is not known'

# ---- --reads own ----
by_plan "$ddprun" 2 each --reads own
check "each rank's own: trained" test "$code" -eq 0
check "each rank's own: the figures are others" test "$(is_true 2 each && echo true)" != true
by_plan "$ddprun" 2 plateau --reads own
ends "each rank's own, where the rate depends on it" 1 'the numbers and sizes of the program.s update.* differs between ranks'
finish
