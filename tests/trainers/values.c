/*
 * values.c - what DDP_STEP makes of gradients, element by element: every rank knows what all of them put in, works the
 * mean (or sum) out in double precision, and holds the result to the documented bound of its way over the wire.
 *
 * Plain C over the runtime, no kernel; gradients are written by copies, the last one first, as backward would. Usage:
 * values MEMORY REDUCTION COMPRESSION [STEPS [TIMES]]
 *   MEMORY: separate: an allocation for each; flat: one for all of a type, in the order of their annotations;
 *           swapped: the same, but in the reverse order on odd ranks; moving: separate, and anew every few steps;
 *           capturing: moving, and each DDP_STEP but the first while a stream is captured in the strictest mode
 *   TIMES: how many times as large the largest gradient is
 * Prints a hash of all results. Exit code 0 if every value was within its bound; 1 otherwise, naming the first.
 */
#include "../lib/numbers.h"
#include "../lib/trainer.h"

#include <cuda_runtime_api.h>
#include <ddprun.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRADIENTS = 9, FLOATS = 7, MOVE_EVERY = 5, RANKS_AT_MOST = 16 };

/* The first ones are of type float32, the others of float64. */
static size_t counts[GRADIENTS] = {1000, 1, 70001, 3, 4099, 256, 17, 33, 500};

struct trainer {
    const char *memory;
    int sums;              /* --reduce sum */
    double unit, smallest; /* of a compressing wire: rounding, relative, and absolute near zero; else 0 */
    int steps;
    char *gradients[GRADIENTS];
    char *flat[2]; /* of float32, of float64 */
};

static size_t
bytes_of(int gradient)
{
    return counts[gradient] * (gradient < FLOATS ? sizeof(float) : sizeof(double));
}

/* ---- what ranks put in: numbers of many magnitudes, and here and there a value that is not a number ---- */

static uint64_t
mix(uint64_t x)
{
    x = (x + 1) * 0x9e3779b97f4a7c15;
    for (int round = 0; round < 2; ++round) {
        x ^= x >> 29;
        x *= 0xd1342543de82ef95;
        x ^= x >> 32;
    }
    return x;
}

static double
input(int rank, int gradient, size_t i, int step)
{
    uint64_t bits = mix(((uint64_t)step << 48) + ((uint64_t)rank << 40) + ((uint64_t)gradient << 32) + i);
    double magnitude = ldexp(1.0 + (double)(bits & 0xffffff) / 0x1000000, (int)(bits >> 24 & 31) - 20);
    if (step % 4 == 3 && gradient == 4 && i % 1000 == 7 && rank == 0)
        return bits >> 63 ? INFINITY : -INFINITY;
    if (step % 4 == 3 && gradient == 2 && i == 65000 && rank == 1)
        return NAN;
    return (float)(bits >> 63 ? -magnitude : magnitude);
}

static void
put(void *host, int gradient, size_t i, double value)
{
    if (gradient < FLOATS)
        ((float *)host)[i] = (float)value;
    else
        ((double *)host)[i] = value;
}

/* ---- memory ---- */

static void
allocate_flat(struct trainer *t)
{
    int backwards = strcmp(t->memory, "swapped") == 0 && DDP_RANK() % 2 == 1;
    for (int type = 0; type < 2; ++type) {
        int first = type == 0 ? 0 : FLOATS, last = type == 0 ? FLOATS : GRADIENTS;
        size_t bytes = 0;
        for (int g = first; g < last; ++g)
            bytes += bytes_of(g);
        CHECK(cudaMalloc((void **)&t->flat[type], bytes));
        char *at = t->flat[type];
        for (int n = 0; n < last - first; ++n) {
            int g = backwards ? last - 1 - n : first + n;
            t->gradients[g] = at;
            at += bytes_of(g);
        }
    }
}

static void
annotate(const struct trainer *t)
{
    for (int g = 0; g < GRADIENTS; ++g)
        DDP_GRADIENT(t->gradients[g], counts[g], g < FLOATS ? DDP_FLOAT32 : DDP_FLOAT64);
}

static void
allocate(struct trainer *t)
{
    if (strcmp(t->memory, "flat") == 0 || strcmp(t->memory, "swapped") == 0) {
        allocate_flat(t);
    } else {
        for (int g = 0; g < GRADIENTS; ++g)
            CHECK(cudaMalloc((void **)&t->gradients[g], bytes_of(g)));
    }
    annotate(t);
}

static void
move(struct trainer *t)
{
    for (int g = 0; g < GRADIENTS; ++g)
        CHECK(cudaFree(t->gradients[g]));
    allocate(t);
}

static void
release(struct trainer *t)
{
    for (int g = 0; g < GRADIENTS && t->flat[0] == NULL; ++g)
        CHECK(cudaFree(t->gradients[g]));
    CHECK(cudaFree(t->flat[0]));
    CHECK(cudaFree(t->flat[1]));
}

/* ---- what must come out ---- */

/* How far the mean may be from the exact one, where inputs have this mean magnitude (docs/wire.md). Each of N ranks
 * rounds its share when it is divided or converted, and each of N - 1 additions rounds again; near zero, conversion
 * rounds by half the distance of the smallest numbers. */
static double
bound_of(const struct trainer *t, int gradient, double magnitude, int world)
{
    if (gradient >= FLOATS)
        return 0x1p-53 * (world + 2) * magnitude;
    if (t->smallest == 0)
        return 0x1p-24 * (world + 2) * magnitude;
    return (world * t->unit * (1 + world * t->unit) + 0x1p-22) * magnitude + world * t->smallest;
}

static int
is_right(const struct trainer *t, int gradient, double result, const double *inputs, int world)
{
    double exact = 0, magnitude = 0, times = t->sums ? world : 1;
    for (int r = 0; r < world; ++r) {
        exact += inputs[r] / world;
        magnitude += fabs(inputs[r]) / world;
    }
    if (!isfinite(exact))
        return isnan(exact) ? isnan(result) : result == exact;
    return fabs(result - exact * times) <= bound_of(t, gradient, magnitude, world) * times;
}

static int
check_gradient(const struct trainer *t, int gradient, int step, uint64_t *hash)
{
    void *host = malloc(bytes_of(gradient));
    int world = DDP_WORLD_SIZE(), right = 1;
    CHECK(cudaMemcpy(host, t->gradients[gradient], bytes_of(gradient), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < counts[gradient] && right; ++i) {
        double inputs[RANKS_AT_MOST];
        double result = gradient < FLOATS ? (double)((const float *)host)[i] : ((const double *)host)[i];
        for (int r = 0; r < world; ++r)
            inputs[r] = input(r, gradient, i, step);
        right = is_right(t, gradient, result, inputs, world);
        if (!right)
            fprintf(stderr, "values: step %d, gradient %d, element %zu: %.9g of %.9g, %.9g, ...\n", step, gradient, i,
                    result, inputs[0], inputs[1]);
        uint64_t bits;
        memcpy(&bits, &result, sizeof(bits));
        *hash = mix(*hash ^ (isnan(result) ? 1 : bits));
    }
    free(host);
    return right;
}

static void
backward(const struct trainer *t, int step)
{
    for (int g = GRADIENTS - 1; g >= 0; --g) {
        char *host = malloc(bytes_of(g));
        for (size_t i = 0; i < counts[g]; ++i)
            put(host, g, i, input(DDP_RANK(), g, i, step));
        CHECK(cudaMemcpyAsync(t->gradients[g], host, bytes_of(g), cudaMemcpyHostToDevice, 0));
        free(host);
    }
}

/* A capture in progress elsewhere forbids much; ddprun must neither fail nor end it. */
static void
step_with(const struct trainer *t, int step)
{
    int captures = strcmp(t->memory, "capturing") == 0 && step > 1;
    cudaStream_t stream;
    cudaGraph_t graph;
    if (captures) {
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    }
    DDP_STEP(0);
    if (captures) {
        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphDestroy(graph));
        CHECK(cudaStreamDestroy(stream));
    }
}

int
main(int argc, char **argv)
{
    if (argc < 4 || DDP_WORLD_SIZE() < 2 || DDP_WORLD_SIZE() > RANKS_AT_MOST) {
        fprintf(stderr, "usage: ddprun -n N values MEMORY REDUCTION COMPRESSION [STEPS [TIMES]]\n");
        return 2;
    }
    struct trainer t = {.memory = argv[1], .sums = strcmp(argv[2], "sum") == 0};
    if (strcmp(argv[3], "fp16") == 0)
        t.unit = 0x1p-11, t.smallest = 0x1p-25;
    else if (strcmp(argv[3], "bf16") == 0)
        t.unit = 0x1p-8, t.smallest = 0x1p-134;
    t.steps = argc > 4 ? (int)whole_number(argv[4], 0, INT_MAX) : 9;

    counts[2] *= argc > 5 ? (size_t)whole_number(argv[5], 1, INT_MAX) : 1;

    uint64_t hash = 0;
    allocate(&t);
    for (int step = 1; step <= t.steps; ++step) {
        backward(&t, step);
        step_with(&t, step);
        for (int g = 0; g < GRADIENTS; ++g) {
            if (!check_gradient(&t, g, step, &hash))
                return 1;
        }
        if ((strcmp(t.memory, "moving") == 0 || strcmp(t.memory, "capturing") == 0) && step % MOVE_EVERY == 0)
            move(&t);
    }
    printf("hash %016llx\n", (unsigned long long)hash);
    release(&t);
    return 0;
}
