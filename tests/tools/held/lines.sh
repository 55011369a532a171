#!/usr/bin/env bash
# lines.sh BUILD [NAME...] - a soak, as scout/lines.sh, with programs of the corpus (corpus.sh): the diff that `ddprun scout --patch` writes applies
# to their sources, `ddprun check` finds the programs equal then, and the diff has the line of the program's row. NAMEs: only these rows.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/corpus.sh"
source "$(dirname "$0")/../scout/pasted.sh"
wanted=("${@:2}")

# A loop over layers gets the batch, and then what the layer before has made; a layer keeps it in a member of its own, or an array has it; one call of a layer
# is the argument of the other; the last batch of an epoch is shorter; the host adds up the gradient of a bias; a function allocates managed memory; layers are
# templates behind an interface, and tensors a class; loops in two functions allocate and set; labels have 64 bytes; a batch has its time steps one after the
# other, and one label for each record, or one for each time step, and its state goes on from batch to batch.
while read -r name file expected; do
    [ ${#wanted[@]} -eq 0 ] || [[ " ${wanted[*]} " == *" $name "* ]] || continue
    asked=$([ "$name" = carried ] && echo 1 || echo 0) # scout asks what the state is
    alone "$name" "$held/$file"
    check "$name: $expected" grep -qF "$expected" <(grep '^+' "$work/$name.diff")
done <<'END'
templates scout9/09_autoencoder_templ/autoencoder.cu ddp_share(
times scout11/05_lstm_sine/lstm.cu ddp_share_times(x, SEQ * BATCH * sizeof(float), 5120, 20, DDP_ELEMENTS | sizeof(float), 0)
carried scout4/11_char_rnn/char_rnn.cu ddp_share_times(targets, y.size() * sizeof(int), 1280, 10, DDP_ELEMENTS | sizeof(int), 0)
loops scout/12_double_moons/moons.cu DDP_PARAMETER(ddp_made[1].memory
labels scout2/smart/smart.cu ddp_share(label.get(), minibatch * sizeof(float), 4, 0)
layers scout6/07_autoencoder_cublas/main.cu ddp_share_slice(0, a, 0, 0,
array scout12/13_gemm_sgd/nn.cu ddp_share_slice(0, A[0], 0, 0,
nested scout2/classes/classes.cu ddp_share_slice(0, x, 0, 0,
thrice scout15/15_pendulum/pendulum.cu ddp_share_slice(0, x.data + at * 3, 0, 0,
shorter scout4/06_svm/svm.cu ddp_share_slice(0, dX + start * D, 0, (size_t)(n) * 400, 40000
bytes scout14/02_softmax_blas/softmax.cu ddp_share_slice(1, dY + start, 0, (size_t)(B) * 1, 60, 1)
counted scout3/17_letters_index/letters.cu ddp_share_slice(0, index_ + at, 0, (size_t)(count) * 4, 480
idle scout14/16_siamese_pairs/siamese.cu DDP_GRADIENT(grad.b2, cfg::code, DDP_FLOAT32)
several scout4/18_inplace_blas/bpnet.cu ddp_share_slice(0, in, 0, 0, 5120, DDP_ELEMENTS | 4)
managed scout15/20_image_fit/fit.cu #define cudaMallocManaged ddp_malloc_managed
host scout4/04_lstm_sensor/lstm.cu DDP_PARAMETER(w.by, NBY, DDP_FLOAT32);
END

asked=0
if [ -e "$work/times.diff" ]; then
    check "times: of each time step there is a share, and one of its labels" test "$(grep -c '^+ *ddp_share(y, BATCH' "$work/times.diff")" -eq 1
    sed -E 's/(BATCH *=? *)64/\132/' "$work/times.d/lstm.cu" >"$work/times.d/again.cu"
    compile "$work/times.d" "$work/times_again" again.cu
    run "$ddprun" -n 2 "$work/times_again"
    check "times: another batch ends the program" grep -q 'a batch, or a list in it, has 2560 bytes, and ddprun scout saw 5120' "$work/stderr"
fi
if [ -e "$work/carried.diff" ]; then
    check "carried: labels of each time step have a share of each" test "$(grep -c '^+ *ddp_share_times(\(inputs\|targets\), ' "$work/carried.diff")" -eq 2
    check "carried: lines that leave memory to each rank are said to" grep -q '^note: these lines do not annotate the memory in question' "$work/carried.out"
fi
finish
