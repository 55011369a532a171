/*
 * types.c - gradients of every element type, written by copies alone, averaged and read back exactly. For two ranks.
 *
 * Plain C over the runtime, no kernel. Built for the legacy and for the per-thread default stream. Usage: types MODE,
 * where MODE is steady: the same memory throughout; move:   gradients are freed and allocated again between steps;
 * forget: one gradient is forgotten after a few steps, and is averaged no more.
 * Exit code 0 if every value was what it had to be.
 */
#include "../lib/trainer.h"

#include <cuda_runtime_api.h>
#include <ddprun.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 14, MOVE_EVERY = 4, FORGET_AFTER = 5, TYPES = 4 };

/* One, three (on the ranks) and their mean, two, as bits of each type; little-endian. */
struct type_case {
    enum ddp_type type;
    size_t bytes;
    unsigned long long one, three, two;
};

static const struct type_case cases[TYPES] = {
    {DDP_FLOAT32, 4, 0x3f800000, 0x40400000, 0x40000000},
    {DDP_FLOAT64, 8, 0x3ff0000000000000, 0x4008000000000000, 0x4000000000000000},
    {DDP_FLOAT16, 2, 0x3c00, 0x4200, 0x4000},
    {DDP_BFLOAT16, 2, 0x3f80, 0x4040, 0x4000},
};

struct gradient {
    void *device;
    unsigned char *host;
    size_t count;
};

static void
allocate(struct gradient *gradient, const struct type_case *type)
{
    CHECK(cudaMalloc(&gradient->device, gradient->count * type->bytes));
    DDP_GRADIENT(gradient->device, gradient->count, type->type);
}

static void
fill(unsigned char *host, size_t count, const struct type_case *type, unsigned long long bits)
{
    for (size_t i = 0; i < count; ++i)
        memcpy(host + i * type->bytes, &bits, type->bytes);
}

/* Every element equals `bits`. */
static int
holds(const struct gradient *gradient, const struct type_case *type, unsigned long long bits)
{
    for (size_t i = 0; i < gradient->count; ++i) {
        if (memcmp(gradient->host + i * type->bytes, &bits, type->bytes) != 0)
            return 0;
    }
    return 1;
}

int
main(int argc, char **argv)
{
    struct gradient gradients[TYPES];
    const char *mode = argc > 1 ? argv[1] : "steady";
    int move = strcmp(mode, "move") == 0, forget = strcmp(mode, "forget") == 0;
    for (int t = 0; t < TYPES; ++t) {
        gradients[t].count = 1000 + 7 * (size_t)t;
        gradients[t].host = malloc(gradients[t].count * cases[t].bytes);
        allocate(&gradients[t], &cases[t]);
    }

    for (int step = 1; step <= STEPS; ++step) {
        int forgotten = forget && step > FORGET_AFTER;
        for (int t = TYPES - 1; t >= 0; --t) {
            unsigned long long mine = DDP_RANK() == 0 ? cases[t].one : cases[t].three;
            fill(gradients[t].host, gradients[t].count, &cases[t], mine);
            CHECK(cudaMemcpyAsync(gradients[t].device, gradients[t].host, gradients[t].count * cases[t].bytes,
                                  cudaMemcpyHostToDevice, 0));
        }
        DDP_STEP(0);
        for (int t = 0; t < TYPES; ++t) {
            unsigned long long mine = DDP_RANK() == 0 ? cases[t].one : cases[t].three;
            CHECK(cudaMemcpy(gradients[t].host, gradients[t].device, gradients[t].count * cases[t].bytes,
                             cudaMemcpyDeviceToHost));
            if (!holds(&gradients[t], &cases[t], forgotten && t == 0 ? mine : cases[t].two)) {
                fprintf(stderr, "types: step %d: the gradient of type %d is not what it has to be\n", step,
                        cases[t].type);
                return 1;
            }
        }
        if (forget && step == FORGET_AFTER)
            DDP_FORGET(gradients[0].device);
        for (int t = 0; t < TYPES && move && step % MOVE_EVERY == 0; ++t) {
            CHECK(cudaFree(gradients[t].device));
            allocate(&gradients[t], &cases[t]);
        }
    }
    for (int t = 0; t < TYPES; ++t) {
        CHECK(cudaFree(gradients[t].device));
        free(gradients[t].host);
    }
    return 0;
}
