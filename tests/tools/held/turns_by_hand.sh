# shellcheck shell=bash disable=SC2154 # turns.sh, which sources it, sets $at
# turns_by_hand.sh - the lines of programs of turns.txt that `ddprun scout --patch` leaves to the user, or in which it sees no gradients.
# Sourced by turns.sh.

# insert FILE before|after REGEXP LINE: at the first line that matches.
insert() {
    local file=$1 where=$2 expression=$3 line=$4
    awk -v where="$where" -v expression="$expression" -v line="$line" '
        !is_done && $0 ~ expression { is_done = 1; if (where == "before") print line; print; if (where == "after") print line; next }
        { print }
        END { exit !is_done }' "$file" >"$at/edited" && cat "$at/edited" >"$file"
}

# by_hand NAME: in the program's folder, after the patch, if there is one.
by_hand() {
    case $1 in
    # The host decides by an overflow, which it looks for in the averages then.
    scout/13_half_scaled)
        sed -i '/^ *DDP_STEP(0);/d; s/if (bad) {/if (bad \&\& DDP_TURN_UPDATES()) {/' mixed.cu
        insert mixed.cu before 'int bad = 0;' 'DDP_STEP(0);'
        ;;
    # Gradients are allocated in the first backward pass.
    scout4/14_tinygrad)
        sed -i '1i #include <ddprun.h>' lib/tensor.cu
        insert lib/tensor.cu after 'cudaMemset\(grad_, 0' 'if (requires_grad_ && parents.empty()) DDP_GRADIENT(grad_, (size_t)size(), DDP_FLOAT32);'
        ;;
    scout7/14_tinytensor)
        sed -i '1i #include <ddprun.h>' tensor.cu
        insert tensor.cu after 'cudaMemset\(grad, 0' 'if (requiresGrad && inputs.empty()) DDP_GRADIENT(grad, (size_t)size(), DDP_FLOAT32);'
        ;;
    # The host computes the last layer's error, in memory that it shares with the device.
    scout11/18_managed_mlp)
        sed -i '1i #include <ddprun.h>' mlp.cu
        insert mlp.cu before 'return l;' 'DDP_PARAMETER(l->weights, (size_t)(in * out), DDP_FLOAT32);
            DDP_PARAMETER(l->bias, (size_t)out, DDP_FLOAT32);
            DDP_GRADIENT(l->w_grad, (size_t)(in * out), DDP_FLOAT32);
            DDP_GRADIENT(l->b_grad, (size_t)out, DDP_FLOAT32);'
        insert mlp.cu before 'forward<<<MINI_BATCH, HIDDEN>>>' 'DDP_TURN_BEGIN();'
        insert mlp.cu before 'update<<<OUTPUTS, HIDDEN>>>' 'DDP_STEP(0);'
        ;;
    # The optimizer and its parameters are the host's.
    scout12/14_gauss_fit)
        sed -i '1i #include <ddprun.h>' ./*.cu
        insert ./*.cu after 'cudaMalloc\(&d_g' 'DDP_GRADIENT(d_g, NPAR, DDP_FLOAT64);'
        insert ./*.cu before ' residuals<<<' 'DDP_TURN_BEGIN();'
        insert ./*.cu before 'cudaMemcpy\(grad.data' 'DDP_STEP(0);'
        sed -i 's/adam.step(par, grad);/if (DDP_TURN_UPDATES()) adam.step(par, grad);/' ./*.cu
        ;;
    # The parameters are updated in place, by elements of other rows in each batch.
    scout10/10_skipgram_inplace)
        sed -i '1i #include <ddprun.h>' word2vec.cu
        insert word2vec.cu after 'cudaMemset\(syn1neg' 'DDP_PARAMETER(syn0, vocab_size * layer1_size, DDP_FLOAT32);
            DDP_PARAMETER(syn1neg, vocab_size * layer1_size, DDP_FLOAT32);'
        insert word2vec.cu before ' pair_error<<<' 'DDP_TURN_BEGIN();'
        insert word2vec.cu after ' learn_input<<<' 'DDP_STEP_PARAMETERS(0); DDP_TURN_END();'
        ;;
    esac
}
