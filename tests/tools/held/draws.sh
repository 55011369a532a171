#!/usr/bin/env bash
# draws.sh BUILD - a soak: the seeds of ten programs of the corpus (corpus.sh) are taken away, so that each run draws other numbers. Six times `ddprun
# scout`, three on each of two days, with four workers, says the same words and writes the same patch.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/corpus.sh"
export SOFTGPU_WORKERS=4
printf '#!/bin/sh\nexec "%s" -Xcompiler -O0 "$@"\n' "$build/bin/softgpu-cc" >"$work/nvcc" && chmod +x "$work/nvcc"

# scout_six_times: in the program's folder; prints a checksum of each answer with its patch.
scout_six_times() {
    local run
    for run in {1..6}; do
        _DDPRUN_FILES_DATE="$((1700000000 + run % 2 * 86400))000000 0" run "$ddprun" -q --device softgpu scout --patch change.diff ./train
        cat "$work/stdout" "$work/stderr" change.diff | cksum
    done
}

for name in scout{14/10_ring_gan,12/19_grad_accum,10/09_lstm_arena,3/12_shapes_cnn,6/06_moons_managed,12/20_dqn_replay,14/17_mixture_net,12/05_char_rnn,9/19_spirals_layers,8/11_gan}; do
    cd "$held/$name" || exit
    find . -name '*.c*' -exec sed -i -E '1i #include <ctime>\n#include <random>
        s/(mt19937(_64)? [a-z]+)[({][0-9]+u?[)}]/\1(std::random_device{ }())/; s/srand\([0-9]+\)/srand(time(NULL))/' {} +
    NVCC=$work/nvcc sh build.sh >"$work/built" 2>&1
    scout_six_times | sort -u >"$work/said"
    check "$name: six scouts say the same" test -s change.diff -a "$(wc -l <"$work/said")" -eq 1
done
finish
