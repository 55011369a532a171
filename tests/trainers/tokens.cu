/*
 * tokens.cu - a trainer that copies a batch to its device in each step: tokens, mostly-zero bfloat16 numbers, or dark
 * images. Read as 64-bit words these look like addresses; none of them is.
 *
 *   tokens KIND WHEN STEPS SEED [OFFSET]
 *       KIND: int32, bfloat16 or image. WHEN: before or within backward. OFFSET: in step 8 the batch holds, so many
 *       bytes from its beginning, a pointer to the last gradient; from then on that one is written through it alone.
 *   tokens sweep FIRST STRIDE COUNT
 *       COUNT gradients of an odd number of elements lie in one flat buffer; a pointer to each but the last is hidden
 *       among tokens, FIRST, FIRST + STRIDE, ... bytes from the beginning of a batch of its own.
 *
 * As exact.h.
 */
enum { LAYERS = 6, COUNT = 1024, TOKENS = 65536, VOCABULARY = 50257, BATCH_BYTES = TOKENS * 4, ODD = 3 };
#include "exact.h"

#include <stdint.h>

static unsigned char host[BATCH_BYTES], *batch; /* batch: in a pool, far from the gradients */
static uint64_t state;

__global__ void
add_through(const unsigned char *pointer, float summand)
{
    float *values;
    memcpy(&values, pointer, sizeof(values));
    values[blockIdx.x * blockDim.x + threadIdx.x] += summand;
}

static unsigned
random_below(unsigned bound)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((state >> 33) % bound);
}

static void
fill(const char *kind)
{
    for (int i = 0; i < TOKENS; ++i) {
        uint32_t word = random_below(random_below(8) == 0 ? 64 : VOCABULARY); /* a few tokens are frequent */
        if (strcmp(kind, "bfloat16") == 0)
            word = random_below(8) == 0 ? (0x3c00 + random_below(0x400)) << 16 * random_below(2) : 0;
        else if (strcmp(kind, "image") == 0)
            word = random_below(5) | random_below(3) << 8 | random_below(3) << 16 | random_below(4) << 24;
        memcpy(host + 4 * i, &word, sizeof(word));
    }
}

static void
copy(void)
{
    CHECK(cudaMemcpyAsync(batch, host, BATCH_BYTES, cudaMemcpyHostToDevice, stream));
}

static void
train(const char *kind, const char *when, long offset)
{
    fill(kind);
    copy();
    layers_annotate();
    for (int step = 0; step < steps; ++step) {
        fill(kind);
        if (offset >= 0 && step >= 8)
            memcpy(host + offset, &gradients[0], sizeof(gradients[0]));
        for (int l = LAYERS - 1; l >= 0; --l) {
            if (l == (strcmp(when, "before") == 0 ? LAYERS - 1 : LAYERS / 2))
                copy();
            if (l == 0 && offset >= 0 && step >= 8)
                add_through<<<BLOCKS, THREADS, 0, stream>>>(batch + offset, mine());
            else
                layer_backward(l, stream);
        }
        DDP_STEP(stream);
        layers_update();
    }
    expect_steps(steps);
    REQUIRE(weights_are_right(0));
}

static void
sweep(size_t first, size_t stride, int count)
{
    static float host_floats[TOKENS * ODD];
    int all = count * ODD;
    size_t bytes = (size_t)all * sizeof(float);
    for (int i = 0; i < all; ++i)
        host_floats[i] = mine();
    float *weight = device_floats(all), *flat = device_floats(all), *summands = device_copy(host_floats, all);
    DDP_PARAMETER(weight, all, DDP_FLOAT32);
    for (int g = 0; g < count; ++g)
        DDP_GRADIENT(flat + ODD * g, ODD, DDP_FLOAT32);
    fill("int32");
    for (int g = 0; g + 1 < count; ++g) {
        unsigned char *at = host + first + (size_t)g * stride, saved[8];
        float *pointer = flat + ODD * g;
        memcpy(saved, at, sizeof(saved));
        memcpy(at, &pointer, sizeof(saved));
        copy();
        CHECK(cudaStreamSynchronize(stream));
        memcpy(at, saved, sizeof(saved));
    }
    for (int step = 0; step < 8; ++step) {
        CHECK(cudaMemcpyAsync(flat, summands, bytes, cudaMemcpyDeviceToDevice, stream));
        DDP_STEP(stream);
        update<<<all, 1, 0, stream>>>(weight, flat);
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(host_floats, weight, bytes, cudaMemcpyDeviceToHost));
    for (int i = 0; i < all; ++i)
        REQUIRE(host_floats[i] == -4.0f * (float)mean_of_all());
}

int
main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    layers_create();
    CHECK(cudaMallocAsync(&batch, BATCH_BYTES, stream));
    CHECK(cudaStreamSynchronize(stream));
    steps = (int)whole_number(argv[3], 0, INT_MAX);
    state = strtoull(argv[4], NULL, 10) + UINT64_C(1000) * (uint64_t)DDP_RANK();
    if (strcmp(argv[1], "sweep") == 0)
        sweep(strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10), (int)whole_number(argv[4], 0, INT_MAX));
    else
        train(argv[1], argv[2], argc > 5 ? (long)whole_number(argv[5], -1, LONG_MAX) : -1);
    return 0;
}
