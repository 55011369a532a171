/*
 * batch_norm_by_gradients.cu - `ddprun --plan auto` averages gradients, and the running statistics of batch
 * normalisation, too. The program normalises groups of eight items, so a batch of two groups has the gradients of two
 * batches of one group.
 */
#include "tests/lib/trainer_options.h"
#include "tests/lib/trainer_save.h"
#include "tests/programs/layer.h"

enum { GROUP = 8, MOST = 64 };

/* A thread for each column. Running statistics move by the mean over the groups. */
static __global__ void
normalise(float *normal, float *deviation, float *running, const float *output, int groups)
{
    int k = threadIdx.x;
    float means = 0.0f;
    for (int group = 0; k < OUTPUTS && group < groups; ++group) {
        const float *of = output + group * GROUP * OUTPUTS + k;
        float mean = 0.0f, squares = 0.0f;
        for (int i = 0; i < GROUP; ++i)
            mean += of[i * OUTPUTS] / GROUP;
        for (int i = 0; i < GROUP; ++i)
            squares += (of[i * OUTPUTS] - mean) * (of[i * OUTPUTS] - mean) / GROUP;
        deviation[group * OUTPUTS + k] = sqrtf(squares + 1e-2f);
        for (int i = 0; i < GROUP; ++i)
            normal[(group * GROUP + i) * OUTPUTS + k] = (of[i * OUTPUTS] - mean) / deviation[group * OUTPUTS + k];
        means += mean / (float)groups;
    }
    if (k < OUTPUTS)
        running[k] = 0.9f * running[k] + 0.1f * means;
}

static __global__ void
normalise_back(float *delta, const float *error, const float *normal, const float *deviation, const float *output,
               int n)
{
    int i = ELEMENT_OF_THREAD, k = i % OUTPUTS, group = i / (GROUP * OUTPUTS);
    float sum = 0.0f, product = 0.0f;
    if (i >= n * OUTPUTS)
        return;
    for (int j = group * GROUP * OUTPUTS + k; j < (group + 1) * GROUP * OUTPUTS; j += OUTPUTS) {
        sum += error[j] / GROUP;
        product += error[j] * normal[j] / GROUP;
    }
    delta[i] = (error[i] - sum - normal[i] * product) / deviation[group * OUTPUTS + k] * (1.0f - output[i] * output[i]);
}

ELEMENTWISE(find_error, (float *error, const float *normal, const float *target, int count), (count * OUTPUTS),
            error[i] = (normal[i] - target[i]) / (float)count)

int
main(int argc, char **argv)
{
    int batch = GROUP;
    const char *save_to = "normalised";
    take_options(argc, argv, 1, {{"--batch", &batch}, {"--save", &save_to}});
    struct layer layer = layer_create();
    float *normal = device_floats(MOST * OUTPUTS), *error = device_floats(MOST * OUTPUTS);
    float *deviation = device_floats(MOST), *running = device_floats(OUTPUTS);
    const unsigned blocks = blocks_for(MOST * OUTPUTS);
    for (int at = 0; at + batch <= ITEMS; at += batch) {
        layer_forward(&layer, at, batch);
        normalise<<<1, OUTPUTS>>>(normal, deviation, running, layer.output, batch / GROUP);
        find_error<<<blocks, THREADS>>>(error, normal, layer.target + at * OUTPUTS, batch);
        normalise_back<<<blocks, THREADS>>>(layer.delta, error, normal, deviation, layer.output, batch);
        layer_backward(&layer, at, batch, 0.0f);
        sgd<<<blocks_for(WEIGHTS), THREADS>>>(layer.weight, layer.momentum, layer.gradient, WEIGHTS, 0.05f);
    }
    std::vector<parameter> saved;
    save_add(&saved, "weight", 0, layer.weight, WEIGHTS);
    save_add(&saved, "running", 0, running, OUTPUTS);
    save_write(save_to, 0, &saved);
    return 0;
}
