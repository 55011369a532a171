#!/usr/bin/env bash
# real.sh BUILD [NAME...] - `ddprun scout --patch` of the trainers of ../check/real, without their annotations: a header that stands in for
# ddprun.h has macros that do nothing. What scout finds, and what it leaves to people. NAMEs: only these rows.
source "$(dirname "$0")/../../end_to_end/lib.sh"
real=$(cd "$(dirname "$0")/../check/real" && pwd)
wanted=("${@:2}")
mkdir -p "$work/include"
cat >"$work/include/ddprun.h" <<'END'
#define DDP_RANK()       0
#define DDP_LOCAL_RANK() 0
#define DDP_WORLD_SIZE() 1
#define DDP_TURN_MINE()  1
#define DDP_TURN_UPDATES() 1
#define DDP_SHARD(total, first, count) (*(first) = 0, *(count) = (total))
#define DDP_GRADIENT(...)  (void)0
#define DDP_GRADIENT_GROUP(...) (void)0
#define DDP_PARAMETER(...) (void)0
#define DDP_STATE(...)     (void)0
#define DDP_BUFFER(...)    (void)0
#define DDP_FORGET(...)    (void)0
#define DDP_WEIGHT(...)    (void)0
#define DDP_REDUCE(...)    (void)0
#define DDP_MEAN(...)      (void)0
#define DDP_STEP(...)      (void)0
#define DDP_STEP_GROUP(...) (void)0
#define DDP_TURN_BEGIN()   (void)0
#define DDP_TURN_END()     (void)0
END

# scouted NAME [OPTION]: its exit code in $code, what it says in $work/said.
scouted() {
    mkdir -p "$work/$1"
    cp "$real/$1.cu" "$work/$1"
    (cd "$work/$1" && "$build/bin/softgpu-cc" -Xcompiler -O0 -g "${@:2}" -I "$work/include" "$1.cu" -o train -lcublas) >"$work/built" 2>&1 ||
        cat "$work/built"
    code=0
    : >"$work/$1/change.diff"
    (cd "$work/$1" && "$ddprun" -q --device softgpu scout --patch change.diff ./train </dev/null) >"$work/said" 2>&1 || code=$?
}

# A limit at which small gradients are; overflows; offsets beside lengths; counts of labels; random bytes for memory that is not trained, and
# for a kernel's number; what the host decides by results, and saves by them.
while read -r name code_expected option expected; do
    [ ${#wanted[@]} -eq 0 ] || [[ " ${wanted[*]} " == *" $name "* ]] || continue
    [ ${#wanted[@]} -gt 0 ] || in_turn 4 || continue
    [ "$option" != - ] || option=
    # shellcheck disable=SC2086 # no option, or one
    scouted "$name" $option
    check "$name $option: exit code $code_expected" test "$code" -eq "$code_expected"
    check "$name $option: $expected" grep -qE -e "$expected" "$work/said" "$work/$name/change.diff"
    [[ $expected == '^by hand'* ]] || check "$name $option: nothing is left by hand" test "$(grep -c '^by hand' "$work/said")" -eq 0
done <<'END'
sumgrad 0 - ^  4 gradients, 328 float32: g\.kernel
halfmix 0 - ^  2 gradients, 288 float16: w1\.g
stories 0 - ^  1 gradient, 1150 float32: dw
loader 0 - ^note: .*seen.* is computed from the inputs alone
clockseed 0 - ^\+ *DDP_STATE\(projection, In \* Features, DDP_FLOAT32\);
clockseed 0 -DNOISE_BY_CLOCK ^by hand: augment .* gets other numbers .*clockseed\.cu:[0-9]+ .*\(std::chrono::system_clock::now\)
multiloss 0 - ^by hand: what is launched at multiloss\.cu:[0-9]+ gets a number that the host computes from what it reads at multiloss\.cu
sharedeval 0 - ^lines to add: [0-9]+ in sharedeval\.cu
spsa 0 - ^lines to add: [0-9]+ in spsa\.cu
gan 1 - steps are of several kinds: after adam \(.*sometimes a fill \(.*sometimes a fill .*the host reads results by a copy to the host \(gan
managed 1 - \(it writes a[0-9]+ \(model,.*annotate what it updates it by
resume 0 - ^by hand: the host decides at resume\.cu:[0-9]+ what it saves by what it reads at resume\.cu
END
finish
