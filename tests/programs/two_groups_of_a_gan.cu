/*
 * two_groups_of_a_gan.cu - the lines of `ddprun scout` where a step updates a critic, and then a generator, whose
 * backward pass goes through the critic. The gradients of each network are a group with a DDP_STEP_GROUP of its own.
 */
#include "tests/programs/layer.h"

enum { NOISE = 6 };

struct network {
    float *weight, *gradient, *momentum;
    int in, out;
};

static void
forward(const struct network *of, float *output, const float *input)
{
    dense_forward<<<blocks_for(of->out * BATCH), THREADS>>>(output, input, of->weight, NULL, of->in, of->out, BATCH);
}

static void
backward(const struct network *of, const float *delta, const float *input, float keep)
{
    weight_gradient<<<blocks_for(of->in * of->out), THREADS>>>(of->gradient, delta, input, of->in, of->out, BATCH, keep,
                                                               1.0f);
}

static void
update(const struct network *of)
{
    int count = of->in * of->out;
    sgd<<<blocks_for(count), THREADS>>>(of->weight, of->momentum, of->gradient, count, 0.05f);
}

static void
upload(float *to, unsigned seed, size_t count)
{
    CHECK(cudaMemcpy(to, host_noise(seed, count, 0.8f).data(), count * sizeof(float), cudaMemcpyHostToDevice));
}

int
main(void)
{
    struct network generator = {device_noise(1, NOISE * INPUTS, 0.5f), device_floats(NOISE * INPUTS),
                                device_floats(NOISE * INPUTS), NOISE, INPUTS};
    struct network critic = {device_noise(2, INPUTS, 0.5f), device_floats(INPUTS), device_floats(INPUTS), INPUTS, 1};
    float *noise = device_floats(BATCH * NOISE), *items = device_floats(BATCH * INPUTS);
    float *made = device_floats(BATCH * INPUTS), *made_delta = device_floats(BATCH * INPUTS);
    float *score = device_floats(BATCH), *delta = device_floats(BATCH);
    float *real = device_copy(std::vector<float>(BATCH, 0.9f).data(), BATCH); /* what the critic says of an item */
    float *fake = device_copy(std::vector<float>(BATCH, -0.9f).data(), BATCH);
    for (unsigned step = 0; step < STEPS; ++step) {
        upload(items, 100 + step, BATCH * INPUTS);
        upload(noise, 300 + step, BATCH * NOISE);
        forward(&critic, score, items);
        loss_delta<<<1, THREADS>>>(delta, score, real, 1, BATCH);
        backward(&critic, delta, items, 0.0f);
        forward(&generator, made, noise);
        forward(&critic, score, made);
        loss_delta<<<1, THREADS>>>(delta, score, fake, 1, BATCH);
        backward(&critic, delta, made, 1.0f);
        update(&critic);
        forward(&critic, score, made);
        loss_delta<<<1, THREADS>>>(delta, score, real, 1, BATCH);
        input_delta<<<blocks_for(INPUTS * BATCH), THREADS>>>(made_delta, critic.weight, delta, made, INPUTS, 1, BATCH);
        backward(&generator, made_delta, noise, 0.0f);
        update(&generator);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
