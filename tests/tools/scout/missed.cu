/*
 * missed.cu MODE - trainers of which scout asks: is this memory trained, or carried from batch to batch?
 * Annotated as public.h does it; by a plan that counts for nothing. For tests/tools/scout/missed.sh.
 *
 *   bias     trained: the launch that updates the first bias by its error reaches its first element only
 *   mixed    trained: the same launch reaches all elements, and begins each at the mean of their old values
 *   host     trained: the host makes the error of what the device has computed, so that no way leads from the last
 *            layer's weights to their gradient
 *   hidden   carried: a recurrent net that keeps its units from batch to batch
 *   cell     carried: the same, and each unit keeps a part of what it was
 */
#include "tests/tools/scout/public.h"

/* to = tanh(x w + kept u): of all units; as a cell, a part of what was kept and a part of that. */
ELEMENTWISE(recur,
            (float *to, const float *from, const float *kept, const float *weights, const float *own, int rows,
             bool keeps),
            rows *HIDDEN, int k = i % HIDDEN;
            float sum = dot(INPUTS, from + i / HIDDEN * INPUTS, 1, weights + k, HIDDEN);
            sum += keeps ? 0.0f : dot(HIDDEN, kept + i / HIDDEN * HIDDEN, 1, own + k, HIDDEN);
            to[i] = keeps ? 0.5f * kept[i] + 0.5f * tanhf(sum) : tanhf(sum))

/* The bias of the first layer, by its error; each thread of its one block has an element. */
__global__ void
move_bias(float *bias, const float *error, int rows, int count, float rate)
{
    float now = 0;
    for (unsigned i = 0; i < blockDim.x; ++i)
        now += bias[i] / (float)blockDim.x;
    __syncthreads();
    for (int row = 0; row < rows; ++row)
        now -= rate * error[row * count + threadIdx.x] / rows;
    bias[threadIdx.x] = now;
}

/* The error of the last layer, by a softmax on the host. */
static void
softmax_on_host(void)
{
    static float out[BATCH * OUTPUTS], host_wanted[BATCH * OUTPUTS];
    CHECK(cudaMemcpy(out, y, sizeof(out), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(host_wanted, wanted, sizeof(out), cudaMemcpyDeviceToHost));
    for (int row = 0; row < BATCH; ++row) {
        float *of = &out[row * OUTPUTS], sum = 0;
        for (int k = 0; k < OUTPUTS; ++k)
            sum += of[k] = expf(of[k]);
        for (int k = 0; k < OUTPUTS; ++k)
            of[k] = of[k] / sum - host_wanted[row * OUTPUTS + k];
    }
    CHECK(cudaMemcpy(delta, out, sizeof(out), cudaMemcpyHostToDevice));
}

static void
step_trained(void)
{
    load();
    forward();
    if (is("host"))
        softmax_on_host();
    else
        RUN(square_delta, BATCH * OUTPUTS)(delta, y, wanted, BATCH * OUTPUTS);
    RUN(delta_below, BATCH * HIDDEN)(below, delta, w[2], h, BATCH, HIDDEN, OUTPUTS, OUTPUTS);
    for (int t = 0; t < TENSORS; ++t) {
        if (t != 1 || is("host"))
            compute_gradient(g[t], t, BATCH, false);
    }
    for (int t = 0; t < TENSORS; ++t) {
        if (t == 1 && !is("host"))
            move_bias<<<1, is("mixed") ? HIDDEN : 1>>>(w[1], below, BATCH, HIDDEN, rate);
        else
            RUN(descend, tensor_count[t])(w[t], g[t], rate, tensor_count[t]);
    }
}

/* w[1] are the units' own weights here, and `kept` is what stays of them. */
static void
step_carried(float *kept)
{
    load();
    RUN(recur, BATCH * HIDDEN)(h, x, kept, w[0], w[1], BATCH, is("cell"));
    RUN(dense, BATCH * OUTPUTS)(y, h, w[2], w[3], BATCH, HIDDEN, OUTPUTS, OUTPUTS, STRAIGHT);
    compute_deltas(BATCH);
    for (int t = 0; t < TENSORS; ++t) {
        if (t == 1 && !is("cell"))
            RUN(gradient_of, HIDDEN * HIDDEN)(g[1], kept, below, BATCH, HIDDEN, HIDDEN, HIDDEN, false);
        else if (t != 1)
            compute_gradient(g[t], t, BATCH, false);
    }
    for (int t = 0; t < TENSORS; ++t) {
        int count = t == 1 ? HIDDEN * HIDDEN : tensor_count[t];
        if (t != 1 || !is("cell"))
            RUN(descend, count)(w[t], g[t], rate, count);
    }
    CHECK(cudaMemcpy(kept, h, BATCH * HIDDEN * sizeof(float), cudaMemcpyDeviceToDevice));
}

int
main(int argc, char **argv)
{
    names_take(argc, argv, " bias mixed host hidden cell ");
    bool carries = is("hidden") || is("cell");
    create_net();
    if (carries)
        create_pair(&w[1], &g[1], HIDDEN * HIDDEN);
    float *kept = floats(BATCH * HIDDEN, 0);
    for (int step = 0; step < STEPS; ++step) {
        if (carries)
            step_carried(kept);
        else
            step_trained();
    }
}
