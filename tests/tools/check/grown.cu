/*
 * grown.cu [HABIT] - a program that updates after each record, as many public trainers do: rank r of N takes record i *
 * N + r. Annotated as it has to be for `ddprun check --batch-grows`. Habits that are right:
 *
 *   plain, momentum   gradient and update apart
 *   adam              the same, by an update that knows no factors
 *   seeded            weights begin with random numbers of the rank's own; DDP_PARAMETER gives all those of rank 0
 *   fused             the update computes the gradient: DDP_STEP_PARAMETERS averages the weights
 *   fused_seeded      fused, and weights begin with random numbers of the rank's own
 *   fused_sum         fused, where the loss is a sum over records: the rate is times DDP_WORLD_SIZE()
 *   dealt             all records are shared out, once
 *   together          as many records as there are ranks are shared out in each step
 *
 * and that are mistakes:
 *
 *   sum, divided      gradients are multiplied, or divided, by the number of ranks, and averaged
 *   forgotten         the biases have no annotation
 *   same              all ranks take record i
 *   rate              the learning rate depends on the rank
 *   early             the update stands before DDP_STEP
 *   fused_rate        the learning rate of fused updates is divided by the number of ranks
 *   fused_forgotten   fused updates, and biases without annotation
 *   split             one record is shared out in each step
 */
#include "tests/tools/frame.h"

enum { INPUTS = 12, OUTPUTS = 5, WEIGHTS = INPUTS * OUTPUTS, RECORDS = 400 };

__global__ void
forward(float *delta, const float *x, const float *w, const float *b, const float *wanted)
{
    int k = threadIdx.x;
    float sum = b[k];
    for (int i = 0; i < INPUTS; ++i)
        sum += x[i] * w[i * OUTPUTS + k];
    delta[k] = tanhf(sum) - wanted[k];
}

__global__ void
backward(float *gw, float *gb, const float *x, const float *delta, float scale)
{
    int i = threadIdx.x;
    if (i < WEIGHTS)
        gw[i] = scale * x[i / OUTPUTS] * delta[i % OUTPUTS];
    if (i < OUTPUTS)
        gb[i] = scale * delta[i];
}

__global__ void
descend(float *w, const float *g, float *moment, float rate, float keep, int count)
{
    int i = threadIdx.x;
    if (i < count) {
        moment[i] = keep * moment[i] + g[i];
        w[i] -= rate * moment[i];
    }
}

__global__ void
descend_adam(float *w, const float *g, float *moment, float rate, int count)
{
    int i = threadIdx.x;
    if (i < count) {
        float *square = moment + count;
        moment[i] = 0.9f * moment[i] + 0.1f * g[i];
        square[i] = 0.99f * square[i] + 0.01f * g[i] * g[i];
        w[i] -= rate * moment[i] / (sqrtf(square[i]) + 1e-6f);
    }
}

__global__ void
descend_fused(float *w, float *b, const float *x, const float *delta, float rate)
{
    int i = threadIdx.x;
    if (i < WEIGHTS)
        w[i] -= rate * x[i / OUTPUTS] * delta[i % OUTPUTS];
    if (i < OUTPUTS)
        b[i] -= rate * delta[i];
}

static unsigned state = 1;

static float
draw(void)
{
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / (float)(1 << 24) - 0.5f;
}

static float *
random_floats(int count)
{
    float host[WEIGHTS], *memory = device_floats(count);
    for (int i = 0; i < count; ++i)
        host[i] = draw();
    CHECK(cudaMemcpy(memory, host, count * sizeof(float), cudaMemcpyHostToDevice));
    return memory;
}

static float records[RECORDS][INPUTS + OUTPUTS];

int
main(int argc, char **argv)
{
    names_take(
        argc, argv,
        " plain momentum adam seeded fused fused_seeded fused_sum sum divided forgotten same rate early fused_rate "
        "fused_forgotten dealt together split ");
    int ranks = DDP_WORLD_SIZE(), rank = DDP_RANK();
    bool fused = given_names[0] != NULL && strncmp(given_names[0], "fused", 5) == 0;
    bool forgets = is("forgotten") || is("fused_forgotten");
    float rate = 0.1f, keep = is("momentum") ? 0.9f : 0, scale = is("sum") ? ranks : is("divided") ? 1.0f / ranks : 1;
    rate *= is("fused_sum") ? ranks : is("fused_rate") ? 1.0f / ranks : is("rate") ? 1 + 0.5f * rank : 1;
    for (auto &record : records)
        for (float &value : record)
            value = draw();
    state = is("seeded") || is("fused_seeded") ? 7 + rank : 7;
    float *w = random_floats(WEIGHTS), *b = random_floats(OUTPUTS), *gw = device_floats(WEIGHTS),
          *gb = device_floats(OUTPUTS);
    float *mw = device_floats(2 * WEIGHTS), *mb = device_floats(2 * OUTPUTS);
    float *x = device_floats(INPUTS + OUTPUTS), *delta = device_floats(OUTPUTS);
    DDP_PARAMETER(w, WEIGHTS, DDP_FLOAT32);
    if (!forgets)
        DDP_PARAMETER(b, OUTPUTS, DDP_FLOAT32);
    if (!fused) {
        DDP_GRADIENT(gw, WEIGHTS, DDP_FLOAT32);
        if (!forgets)
            DDP_GRADIENT(gb, OUTPUTS, DDP_FLOAT32);
    }
    size_t first = (size_t)rank, count = 0;
    if (is("dealt"))
        DDP_SHARD(RECORDS, &first, &count);
    for (int i = 0; (i + 1) * ranks <= RECORDS; ++i) {
        if (is("together") || is("split"))
            DDP_SHARD(is("split") ? INPUTS : ranks, &first, &count);
        const float *record = records[is("same") || is("split") ? i : is("dealt") ? first + i : i * ranks + first];
        CHECK(cudaMemcpy(x, record, sizeof(records[0]), cudaMemcpyHostToDevice));
        forward<<<1, OUTPUTS>>>(delta, x, w, b, x + INPUTS);
        if (fused) {
            descend_fused<<<1, WEIGHTS>>>(w, b, x, delta, rate);
            DDP_STEP_PARAMETERS(0);
            continue;
        }
        backward<<<1, WEIGHTS>>>(gw, gb, x, delta, scale);
        if (!is("early"))
            DDP_STEP(0);
        if (is("adam")) {
            descend_adam<<<1, WEIGHTS>>>(w, gw, mw, 0.01f, WEIGHTS);
            descend_adam<<<1, WEIGHTS>>>(b, gb, mb, 0.01f, OUTPUTS);
        } else {
            descend<<<1, WEIGHTS>>>(w, gw, mw, rate, keep, WEIGHTS);
            descend<<<1, WEIGHTS>>>(b, gb, mb, rate, keep, OUTPUTS);
        }
        if (is("early"))
            DDP_STEP(0);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
