#!/usr/bin/env bash
# draws.sh BUILD - programs that differ from run to run: what draws its weights anew (draws.cu) draws the same in all runs of `ddprun scout`,
# also in another scout of the day, and with eight other draws the answer is the same; so is that on a program whose sums depend on
# the order of atomics, with four workers. With DDPRUN_SOAK=1 twenty runs of that; and of ten held programs, whose seeds are taken away, three
# scouts on each of two days say the same words, and write the same patch.
source "$(dirname "$0")/../../end_to_end/lib.sh"
programs=$build/tests/tools/scout
scouts=("$ddprun" -q --device softgpu scout -v)

# answer WORDS...: the table, or the refusal, in $work/answer.
answer() {
    run "${scouts[@]}" "$@"
    grep -hE '^(a step|  (parameter|gradient|optimizer|moving|statistics|carried|random|suspect) |group |annotations|missing|superfluous|ddprun: )' \
        "$work/stdout" "$work/stderr" >"$work/answer"
}

answer "$programs/draws" "$work/drawn"
check "draws: found as it is annotated" grep -q '^annotations: each' "$work/answer"
cp "$work/answer" "$work/first"
answer --prove "$programs/draws" "$work/drawn"
check "draws: proof (d)" grep -q '^proof (d): passed' "$work/stdout"
check "draws: two scouts draw the same" test "$(wc -l <"$work/drawn")" -eq 2 -a "$(sort -u "$work/drawn" | wc -l)" -eq 1
for day in {1..8}; do
    _DDPRUN_FILES_DATE="$((1700000000 + day * 86400))000000 0" answer "$programs/draws" "$work/drawn"
    check "draws, the $day. other one: the same answer" cmp "$work/first" "$work/answer"
done
check "draws: they were others" test "$(sort -u "$work/drawn" | wc -l)" -eq 9
answer "$programs/draws" "$work/drawn" bias
check "a bias that is updated by its delta: its change is averaged" grep -q '^  parameter .*no gradient of its own$' "$work/answer"

export SOFTGPU_WORKERS=4
times=$((${DDPRUN_SOAK:-0} == 1 ? 20 : 4))
for ((i = 1; i <= times; ++i)); do
    answer "$programs/habits" atomics
    [ -e "$work/atomics" ] || cp "$work/answer" "$work/atomics"
    check "atomics, run $i: the same answer" cmp "$work/atomics" "$work/answer"
done
check "atomics: found as it is annotated" grep -q '^annotations: each' "$work/atomics"

held=$(cd "$(dirname "$0")/../../held" && pwd)
printf '#!/bin/sh\nexec "%s" -Xcompiler -O0 "$@"\n' "$build/bin/softgpu-cc" >"$work/nvcc" && chmod +x "$work/nvcc"
for name in scout{14/10_ring_gan,12/19_grad_accum,10/09_lstm_arena,3/12_shapes_cnn,6/06_moons_managed,12/20_dqn_replay,14/17_mixture_net,12/05_char_rnn,9/19_spirals_layers,8/11_gan}; do
    [ "${DDPRUN_SOAK:-0}" = 1 ] && cp -r "$held/$name" "$work/held" && cd "$work/held" || break
    find . -name '*.c*' -exec sed -i -E '1i #include <ctime>\n#include <random>
        s/(mt19937(_64)? [a-z]+)[({][0-9]+u?[)}]/\1(std::random_device{ }())/; s/srand\([0-9]+\)/srand(time(NULL))/' {} +
    NVCC=$work/nvcc sh build.sh >"$work/built" 2>&1
    for run in {1..6}; do
        _DDPRUN_FILES_DATE="$((1700000000 + run % 2 * 86400))000000 0" run "$ddprun" -q --device softgpu scout --patch change.diff ./train
        cat "$work/stdout" "$work/stderr" change.diff | cksum
    done | sort -u >"$work/said"
    check "$name: six scouts say the same" test -s change.diff -a "$(wc -l <"$work/said")" -eq 1
    cd "$work" && rm -r held
done
finish
