#!/usr/bin/env bash
# random.sh BUILD [FIRST LAST] - what `ddprun scout` finds in random training programs (tests/matrix/random.cu), whose annotations play no
# part in the recording: at least eight of ten are found as they are annotated, and none is found otherwise without a word: what is
# not right is refused, has a note, or serves as well: the scratch that random_writers.h adds to a gradient, or what proof (c) shows.
#
# Habits by which hardly any step is like another one, or by which threads decide the order of operations, are left out. Ordinarily
# seeds 1 to 10; with DDPRUN_SOAK=1, 1 to 200.
source "$(dirname "$0")/../../end_to_end/lib.sh"
first=${2:-1}
last=${3:-$((${DDPRUN_SOAK:-0} == 1 ? 200 : 10))}
export MATRIX_WITHOUT=${MATRIX_WITHOUT-threads,step-in-thread,shuffled,left-out,passes,log,look,moves}
# shellcheck source=tests/tools/scout/rows.sh
source "$(dirname "$0")/rows.sh"
seq "$first" "$last" | sed 's,.*,&|tests/matrix/random_shared --seed & --steps 48,' | rows_run verdict

serves() {
    grep -q '^proof (c): passed' "$work/stdout" || ! grep '^missing: a DDP_STEP' "$shown" | grep -Eqv ', after weight_gradient( \(.*\))? and before add_to( \(.*\))?$'
}

right=0
for ((seed = first; seed <= last; seed++)); do
    shown=$work/out-$seed verdict=$(cat "$work/verdict-$seed")
    case $verdict in
    refused*) ok "seed $seed: refused" ;;
    right*) right=$((right + 1)) && ok "seed $seed: right" ;;
    *)
        grep -q '^note: ' "$shown" && continue
        run "$ddprun" -q scout -v --by gradients --prove "$build/tests/matrix/random_shared" --seed "$seed" --steps 48
        check "seed $seed: found otherwise, and right: $verdict" serves
        ;;
    esac
done
shown=
printf '# %d of %d right\n' "$right" "$((last - first + 1))"
check "eight of ten are right" test $((right * 10)) -ge $(((last - first + 1) * 8))
finish
