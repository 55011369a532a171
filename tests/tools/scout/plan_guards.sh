#!/usr/bin/env bash
# plan_guards.sh BUILD [PATTERN] - `ddprun --plan` with programs of habits (rounds.cu): their parameters are, bit for bit, those of one
# process that plays all turns; or a guard ends the job, by name, and without the guard it is not seen. None is silently wrong.
# Ordinarily a part of them, on two ranks; with DDPRUN_SOAK=1 all, on two and three. PATTERN: only habits that contain it.
source "$(dirname "$0")/../../end_to_end/lib.sh"
pattern=${2:-}
watch_leftovers
install_broken # and the engine, and the overlay of files
ln -sf "$build/tests/mutants/libddprun-engine.so" "$broken/lib/"
ln -sf "$build/tests/tools/sandbox/libfiles_mutants.so" "$broken/lib/libddprun-files.so"
rounds=$build/tests/tools/scout/rounds
soak=${DDPRUN_SOAK:-0}
steps=(--steps 120)
cd "$work" || exit 1

# wanted HABIT [soak]: whether it is run now.
wanted() {
    [[ $1 == *"$pattern"* ]] && { [ "${2:-}" != soak ] || [ "$soak" -eq 1 ] || [ -n "$pattern" ]; }
}

# by_plan RANKS HABIT ARGUMENT...
by_plan() {
    run "${installed:-$ddprun}" -n "$1" --device softgpu --share-gpu --timeout 60 --plan "${plan:-$2.json}" "$rounds" "${@:2}"
}

# right HABIT [soak]: ranks have the bits of one process that plays all turns, and rank 0 prints its figures.
right() {
    local n
    wanted "$@" || return 0
    planned "$1" "$1.json" "$rounds" "$1"
    for n in 2 3; do
        [ "$n" -eq 2 ] || [ "$soak" -eq 1 ] || continue
        rm -f turns.par alone.par
        by_plan "$n" "$1" --steps "${count:-120}" --save turns.par
        ends "$1 on $n ranks" 0 "${closing:-bitwise identical}"
        grep '^figure' "$work/stdout" >turns.figures
        run "$ddprun" -n 1 --device softgpu "$rounds" "$1" --steps "${count:-120}" --turns "$n" --save alone.par \
            --seed "$(sed -n 's/^seed //p' "$work/stdout")"
        check "$1 on $n ranks: the bits of one process that plays all turns" cmp turns.par alone.par
        check "$1 on $n ranks: its figures" cmp turns.figures <(grep '^figure' "$work/stdout")
    done
}

# refused HABIT PATTERN [soak]: there is no plan, and the job does not start.
refused() {
    wanted "$1" "${3:-}" || return 0
    run "$ddprun" -q --device softgpu scout --prove --json "$1.json" "$rounds" "$1"
    by_plan 2 "$1"
    ends "$1" 2 "$2"
}

# guarded HABIT MUTANT PATTERN [soak]: the guard ends the job by name; without it this is not said.
guarded() {
    local plan=${1%-rank}.json
    wanted "$1" "${4:-}" || return 0
    [ -e "$plan" ] || planned "${1%-rank}" "$plan" "$rounds" "${1%-rank}"
    by_plan 2 "$1" "${steps[@]}"
    ends "$1" 1 "$3"
    [ -n "$2" ] || return 0
    installed=$broken/bin/ddprun DDPRUN_MUTANT=$2 by_plan 2 "$1" "${steps[@]}"
    check "$1: without its guard it is not seen" test -z "$(grep -E "$3" "$work/stderr")"
}

# ---- right ----
for habit in counter dropout amax events last norm; do
    right "$habit" "$([ "$habit" = counter ] || echo soak)"
done
right index
right clock
count=121 closing='the last 1 of 121 batches do not fill a round of [23] ranks' right tests
right epochs soak
right lines soak
right shares soak
right constants soak
right stop soak
right clears
if wanted clears; then
    installed=$broken/bin/ddprun DDPRUN_MUTANT=PLAN_FILLS_FIRST by_plan 2 clears --save turns.par
    check "clears: without its fills the first batch has an update of its own" bash -c '! cmp -s turns.par alone.par'
fi
if wanted tests; then
    installed=$broken/bin/ddprun DDPRUN_MUTANT=PLAN_PLACES_ALIKE by_plan 2 tests --steps 121
    check "tests: where lines of one function are alike, the first test is of an old batch" test "$code" -ne 0
fi
if wanted next soak; then
    planned next next.json "$rounds" next
    by_plan 2 next --steps 41
    ends "next" 0 '20 steps .each a round of 2 of the program.s 40 batches.'
    check "next: a copy for a batch that does not come is no batch" test -z "$(grep 'do not fill a round' "$work/stderr")"
fi
refused ahead 'no data changes memory' soak

# ---- guarded ----
batches='the batches that the program copies to its device.* differs between ranks'
numbers='the numbers and sizes of the program.s launches for a batch.* differs between ranks'
guarded seed-rank PLAN_DATA_UNHEARD "$batches" soak
guarded index-rank PLAN_NUMBERS_UNHEARD "$numbers"
guarded grid-rank PLAN_NUMBERS_UNHEARD "$numbers"
DDPRUN_READS=own guarded amax-host PLAN_NUMBERS_UNHEARD "$numbers" soak
DDPRUN_READS=own guarded plateau PLAN_RATE_UNHEARD 'the numbers and sizes of the program.s update.* differs between ranks'
DDPRUN_READS=own guarded returns PLAN_DATA_UNHEARD "$batches" soak
guarded passing PLAN_COMPARED_RARELY 'differs between ranks 0 and 1 after update [12][0-9] of --plan' soak
guarded late PLAN_STRANGERS_UNASKED 'scale_by changes what is trained in each batch of a round, and is not in the plan'
guarded signs PLAN_COMPLETE_UNASKED 'keep_sign changes a gradient that waits for the other ranks, and is not in the plan'
guarded rare PLAN_PLACES_ALIKE 'dense.* is called from a place that is not in the plan'
guarded elsewhere PLAN_UPDATE_ELSEWHERE 'makes an update, and is called from a place that is not in the plan'
guarded validates PLAN_UPDATE_UNASKED 'comes again before the update of the plan' soak
if wanted clock; then
    installed=$broken/bin/ddprun DDPRUN_MUTANT=FILES_DATE_REAL by_plan 2 clock --steps 40
    check "clock: with the system's date ranks differ" grep -q 'differs between ranks' "$work/stderr"
fi

# ---- a thread of its own that copies batches ----
rounds=$build/tests/tools/scout/periods
if wanted ring; then
    planned ring ring.json "$rounds" ring
    by_plan 2 ring
    ends ring 0 'bitwise identical'
    check "ring: ranks are not taken to see the same batches" test -z "$(grep 'same .* batches' "$work/stderr")"
    export PERIODS_BY_RANK=1
    steps=()
    guarded ring PLAN_LOADER_UNHEARD "$batches"
fi
finish
