#!/usr/bin/env bash
# lines.sh BUILD [NAME...] - a soak, as scout/lines.sh, with programs of the corpus (corpus.sh): the diff that `ddprun scout --patch` writes applies
# to their sources, ranks of the programs take turns then, and the diff has the line of the program's row. NAMEs: only these rows.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/corpus.sh"
source "$(dirname "$0")/../scout/pasted.sh"
wanted=("${@:2}")

# Layers are templates behind an interface, and tensors a class; a loop allocates and sets memory with a name; the host counts updates; a batch normalisation
# keeps running statistics; the parameter of a layer has the name of its gradient's; one function allocates managed memory; the host adds up the gradient of a
# bias.
while read -r name file expected; do
    [ ${#wanted[@]} -eq 0 ] || [[ " ${wanted[*]} " == *" $name "* ]] || continue
    alone "$name" "$held/$file"
    check "$name: $expected" grep -qF "$expected" <(grep '^+' "$work/$name.diff")
done <<'END'
templates scout9/09_autoencoder_templ/autoencoder.cu DDP_TURN_BEGIN();
loops scout/12_double_moons/moons.cu DDP_PARAMETER(net->W[l], nw, DDP_FLOAT64);
counts scout12/09_vae/vae.cu if (DDP_TURN_UPDATES()) t++;
running scout12/15_batchnorm_mlp/bn.cu DDP_BUFFER(rmean,
idle scout14/16_siamese_pairs/siamese.cu DDP_GRADIENT(grad.b2, cfg::code, DDP_FLOAT32);
managed scout15/20_image_fit/fit.cu #define cudaMallocManaged ddp_malloc_managed
host scout4/04_lstm_sensor/lstm.cu DDP_PARAMETER(w.by, NBY, DDP_FLOAT32);
END
finish
