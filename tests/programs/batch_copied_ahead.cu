/*
 * batch_copied_ahead.cu - `ddprun --plan auto` where a stream without launches copies the next batch, into two buffers
 * in turn, while the present batch is computed. A copy belongs to the batch that reads it; one launch updates all
 * tensors, which a struct points to.
 */
#include "tests/lib/trainer_options.h"
#include "tests/lib/trainer_save.h"
#include "tests/programs/layer.h"

struct buffer {
    float *x, *target;
    cudaEvent_t filled, used;
};

static void
fill(const struct buffer *to, const float *items, const float *targets, int at, int batch, cudaStream_t copies)
{
    CHECK(cudaStreamWaitEvent(copies, to->used, 0));
    CHECK(cudaMemcpyAsync(to->x, items + at * INPUTS, batch * INPUTS * sizeof(float), cudaMemcpyHostToDevice, copies));
    CHECK(cudaMemcpyAsync(to->target, targets + at * OUTPUTS, batch * OUTPUTS * sizeof(float), cudaMemcpyHostToDevice,
                          copies));
    CHECK(cudaEventRecord(to->filled, copies));
}

static __global__ void
update_all(struct layer all, float rate)
{
    int i = ELEMENT_OF_THREAD, of_bias = i - WEIGHTS;
    if (i < WEIGHTS) {
        all.momentum[i] = 0.9f * all.momentum[i] + all.gradient[i];
        all.weight[i] -= rate * all.momentum[i];
    } else if (of_bias < OUTPUTS) {
        all.bias_momentum[of_bias] = 0.9f * all.bias_momentum[of_bias] + all.bias_gradient[of_bias];
        all.bias[of_bias] -= rate * all.bias_momentum[of_bias];
    }
}

static float *
pinned_noise(unsigned seed, size_t count)
{
    float *memory;
    CHECK(cudaMallocHost(&memory, count * sizeof(float)));
    for (size_t i = 0; i < count; ++i)
        memory[i] = noise_of(seed, (unsigned)i);
    return memory;
}

int
main(int argc, char **argv)
{
    int batch = 8;
    const char *save_to = "ahead";
    take_options(argc, argv, 1, {{"--batch", &batch}, {"--save", &save_to}});
    struct layer layer = layer_create();
    struct buffer buffers[2];
    float *items = pinned_noise(7, ITEMS * INPUTS), *targets = pinned_noise(8, ITEMS * OUTPUTS);
    cudaStream_t copies = stream_create();
    for (struct buffer &buffer : buffers)
        buffer = {device_floats(BATCH * INPUTS), device_floats(BATCH * OUTPUTS), event_create(), event_create()};
    fill(&buffers[0], items, targets, 0, batch, copies);
    for (int step = 0; (step + 1) * batch <= ITEMS; ++step) {
        const struct buffer *now = &buffers[step % 2];
        if ((step + 2) * batch <= ITEMS)
            fill(&buffers[(step + 1) % 2], items, targets, (step + 1) * batch, batch, copies);
        CHECK(cudaStreamWaitEvent(0, now->filled, 0));
        layer.x = now->x;
        layer.target = now->target;
        layer_learn(&layer, 0, batch);
        update_all<<<1, THREADS>>>(layer, 0.05f);
        CHECK(cudaEventRecord(now->used, 0));
    }
    CHECK(cudaDeviceSynchronize());
    std::vector<parameter> saved;
    save_add(&saved, "weight", 0, layer.weight, WEIGHTS);
    save_add(&saved, "bias", 0, layer.bias, OUTPUTS);
    save_write(save_to, 0, &saved);
    return 0;
}
