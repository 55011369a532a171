#!/usr/bin/env bash
# again.sh BUILD - a script that trains several times in each rank: every training is what it would be by itself, the closing lines are of the last one, ranks
# that do not train equally often get an error, and a program that did not exit cleanly is not followed by another one.
source "$(dirname "$0")/lib.sh"
export TMPDIR=$work/tmp ladder work
mkdir "$TMPDIR"
limit=60
first=(--steps 6 --seed 4)
second=(--steps 9 --seed 5)
export first_options="${first[*]}" second_options="${second[*]}"

# By themselves. Sums of two ranks are the same in any order.
works "the first training by itself" "$ddprun" -n 2 "$ladder" "${first[@]}" --save "$work/first"
works "the second by itself" "$ddprun" -n 2 "$ladder" "${second[@]}" --save "$work/second"

# as_by_themselves NAME: the last command was a job with first, second and first again.
as_by_themselves() {
    succeeded "$1: ends well"
    for rank in 0 1; do
        check "$1: the first, rank $rank" cmp "$work/first" "$work/a-$rank"
        check "$1: the second, rank $rank" cmp "$work/second" "$work/b-$rank"
        check "$1: the first again, rank $rank" cmp "$work/first" "$work/c-$rank"
    done
    check "$1: says that there were three" grep -q '^ddprun: 3 programs trained, one after the other; the last one:' "$work/stderr"
    check "$1: the last's steps, and how many can have overlapped" grep -Eq 'the last one: 2 ranks, 6 steps, [0-6] of them' "$work/stderr"
    check "$1: the last's comparisons" grep -q 'compared 6 times, last after step 6 of 6' "$work/stderr"
    check "$1: nothing is left" [ -z "$(ls "$TMPDIR")" ]
    rm -f "$work"/[abc]-*
}

three='"$ladder" $first_options --save "$work/a-%d" && "$ladder" $second_options --save "$work/b-%d" && exec "$ladder" $first_options --save "$work/c-%d"'
run "$ddprun" -n 2 --device softgpu --check-every 1 --summary-json "$work/summary.json" sh -c "$three"
as_by_themselves "three trainings"
check "three trainings: the summary has them" grep -Eq '"trainings": ?3' "$work/summary.json"
if command -v mpirun >/dev/null; then
    root=()
    [ "$(id -u)" -ne 0 ] || root=(--allow-run-as-root)
    (unset PMIX_NAMESPACE PMIX_RANK "${!OMPI_@}" "${!SLURM_@}" &&
        run mpirun "${root[@]}" --oversubscribe -n 2 "$ddprun" --device softgpu --check-every 1 sh -c "$three" && exit "$code")
    code=$?
    rm -rf "$TMPDIR"/ompi* "$TMPDIR"/pmix*
    as_by_themselves "under mpirun"
else
    echo "skipped: under mpirun: mpirun is not installed (Debian: openmpi-bin)"
fi

# Many ranks that leave and come again at the same time meet each other and no other process.
works "three trainings of twelve ranks" "$ddprun" -n 12 --device softgpu sh -c 'for i in 1 2 3; do "$ladder" --steps 4 --layers 2 --width 8 || exit; done'

for rank in 0 1; do
    run "$ddprun" -n 2 --device softgpu sh -c '"$ladder" $first_options && if [ "$RANK" = '$rank' ]; then "$ladder" $first_options; fi'
    failed_with "only rank $rank trains again" 1 "rank $((1 - rank)) ended after 1 program that trained, but others have begun one more"
done

# A death in the second training is that rank's, after the steps of that training.
run "$ddprun" -n 2 --device softgpu sh -c '"$ladder" $first_options && exec "$ladder" --steps 9 --fault crash --fault-step 4 --fault-rank 1'
failed_with "a crash in the second" 139 "rank 1 was ended by SIGSEGV .* after step 3[,;]"

# After _exit, as after exec, the program has not exited cleanly.
run "$ddprun" -n 2 --device softgpu sh -c '"$ladder" --steps 9 --fault quick-exit --fault-step 5; "$ladder" $first_options'
failed_with "after _exit" 1 "rank [01] after step 4: process [0-9]+ follows process [0-9]+ in this rank, which did not exit cleanly"

# Nor does what follows hide why the first one stopped, in any number of ranks.
for ranks in 1 2; do
    run "$ddprun" -n "$ranks" --device softgpu sh -c '_DDPRUN_ENGINE=/nonexistent "$ladder" $first_options; exec "$ladder" $first_options'
    failed_with "after a failure, -n $ranks" 1 "rank [01] .*cannot load its engine"
done

# A program beside the training, by one rank only, is kept out by hand.
export beside= # what is preloaded without ddprun
[ "$sanitized" -eq 0 ] || beside=${runtime[2]#LD_PRELOAD=}
run "$ddprun" -n 2 --device softgpu sh -c 'LD_PRELOAD=$beside "$ladder" $first_options && "$ladder" $second_options --save "$work/d-%d" && if [ "$RANK" = 0 ]; then LD_PRELOAD=$beside "$ladder" $first_options; fi'
succeeded "programs beside the training"
check "programs beside the training change nothing" cmp "$work/second" "$work/d-1"

# One rank alone may train as it likes.
works "a world of one, after _exit" "$ddprun" -n 1 --device softgpu sh -c '"$ladder" --steps 9 --fault quick-exit --fault-step 5; "$ladder" $first_options'
finish
