#!/usr/bin/env bash
# blind.sh BUILD [NAME...] - twenty trainers that were written from one-line briefs, by an author who had not seen scout (blind/; sha256.txt has the
# hashes of the sources as they were before scout's first run on them). With the lines of `ddprun scout --patch`, and nothing added by hand, ranks of
# a trainer take turns, and train as one process that plays their turns; or scout says what is left by hand, or refuses.
#
# Ordinarily a tenth of them (in_turn); DDPRUN_SOAK=1 runs all.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/pasted.sh"
blind=$sources/tests/tools/scout/blind
runs_in=$work/runs
words_at_most=260 # they have up to two optimizers, and print, save and evaluate
mkdir "$runs_in"
wanted=("${@:2}")

# is_wanted NAME: whether a program is tried in this run.
is_wanted() {
    if [ ${#wanted[@]} -gt 0 ]; then
        [[ " ${wanted[*]} " == *" $1 "* ]]
    else
        in_turn 10
    fi
}

# said NAME DDPRUN: what scout says of the program, in $work/stdout and $work/stderr.
said() {
    mkdir "$work/$1.d" && cp "$blind/$1.cu" "$work/$1.d"
    compile "$work/$1.d" "$work/$1_plain" "$1.cu"
    cd "$work/$1.d" || exit
    run "$2" -q --device softgpu scout --patch "$work/$1.diff" "$work/$1_plain"
    cd "$runs_in" || exit
}

# patched NAME: 2 ranks train with the patch; their exit code is in `code`.
patched() {
    patch -d "$work/$1.d" -p0 -s -i "$work/$1.diff"
    compile "$work/$1.d" "$work/$1" "$1.cu"
    run "$ddprun" -n 2 --device softgpu "$work/$1"
}

(cd "$blind" && sha256sum --status -c sha256.txt)
check "the sources are as they were written" test $? -eq 0

# turns: they are equal. Else what scout says.
while read -r name words; do
    is_wanted "$name" || continue
    if [ "$words" = turns ]; then
        mkdir "$work/$name.s" && cp "$blind/$name.cu" "$work/$name.s"
        alone "$name" "$work/$name.s/$name.cu"
        [ "$name" = matfac_sgd ] || check "$name: all memory has names" test "$(grep -c ddp_made "$work/$name.diff")" -eq 0
        continue
    fi
    said "$name" "$ddprun"
    check "$name: $words" grep -qE "$words" "$work/stdout" "$work/stderr"
done <<'END'
conv_net turns
cublas_mlp turns
dqn_grid no gradients found: no two steps were equal
gan_gaussian turns
linreg_cosine turns
logreg_clip turns
lstm_sine ^by hand: a batch goes on with what the one before has computed
matfac_sgd turns
micrograd_tensor turns
minibatch_kmeans no gradients found: data reaches .*d_centroids.* without passing through a gradient, by update
mnist_globals turns
multitask_accum ^by hand: 1 gradient, 264 float32
pinn_poisson turns
resnet_bn turns
skipgram turns
tied_autoencoder turns
tiny_transformer turns
train_bigram turns
two_tower turns
vae_toy turns
END

# A region that ends with the first of two updates (tests/lib/mutants.txt).
if is_wanted mutant; then
    mkdir -p "$work/mutant/bin" "$work/mutant/lib"
    cp "$build/tests/mutants/ddprun" "$work/mutant/bin/"
    ln -s "$build"/lib/libddprun{,-engine,-check,-files,-scout}.so "$build/lib/softgpu" "$work/mutant/lib/"
    rm -rf "$work/skipgram.d"
    DDPRUN_MUTANT=SCOUT_REGION_SHORT said skipgram "$work/mutant/bin/ddprun"
    patched skipgram
    check "a region that ends too early: the job ends" test "$code" -ne 0
fi
finish
