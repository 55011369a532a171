/*
 * halves.c - means of float16 gradients keep tiny values, and do not overflow: each is the exact mean, rounded once to
 * float32 and once to float16.
 *
 * Plain C over the runtime, no kernel; gradients are written by copies, the last one first, as backward would. Usage:
 * halves MEMORY [SENT]
 *   MEMORY: separate: an allocation for each; flat: one for all
 *   SENT: wide (default), or narrow: 16 bits are sent, and results are held to the bound of docs/wire.md; or
 *         turns: each rank has its own batches, and parameters become the averages, which nothing here looks at
 * Prints a hash of all results. Exit code 0 if every value was what it had to be; 1 otherwise, naming the first.
 */
#include "../lib/trainer.h"

#include <cuda_runtime_api.h>
#include <ddprun.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 6, GRADIENTS = 3, MOST = 20011, INFINITE = 0x7c00, SIGN = 0x8000 };

static const size_t counts[GRADIENTS] = {1000, MOST, 37};

/* ---- float16 ---- */

static double
value_of(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double magnitude = ldexp(fraction, -24);
    if (exponent == 31)
        magnitude = fraction != 0 ? NAN : INFINITY;
    else if (exponent > 0)
        magnitude = ldexp(1024 + fraction, exponent - 25);
    return (bits & SIGN) != 0 ? -magnitude : magnitude;
}

/* The nearest, of two the even one. Not of NaN. */
static uint16_t
nearest(float value)
{
    const double magnitude = fabs((double)value);
    const uint16_t sign = signbit(value) ? SIGN : 0;
    uint16_t low = 0, high = INFINITE;
    if (magnitude >= 65520)
        return (uint16_t)(sign | INFINITE);
    while (high - low > 1) {
        const uint16_t middle = (uint16_t)((low + high) / 2);
        *(value_of(middle) <= magnitude ? &low : &high) = middle;
    }
    const double next = high == INFINITE ? 65536 : value_of(high);
    const double below = magnitude - value_of(low), above = next - magnitude;
    const bool goes_up = above < below || (above == below && high % 2 == 0);
    return (uint16_t)(sign | (goes_up ? high : low));
}

/* ---- what ranks put in ---- */

/* Kinds of elements: sums of float32 are exact of all, in any order, for up to eight ranks. */
static uint16_t
input(int rank, size_t i, int step)
{
    const unsigned number = (unsigned)i * 7 + (unsigned)step;
    switch (i % 8) {
    case 0:
        return 1; /* the smallest */
    case 1:
        return (uint16_t)(number % 1024); /* too small for all bits, the same on all ranks, */
    case 2:
        return (uint16_t)((number + 37 * (unsigned)rank) % 1024); /* and others on each */
    case 3:
        return INFINITE - 1; /* the largest, */
    case 4:
        return (uint16_t)(INFINITE - 1 - number % 1024); /* others, */
    case 5:
        return (uint16_t)((INFINITE - 1) | (rank % 2 == 1 ? SIGN : 0)); /* and of either sign */
    case 6:
        return (uint16_t)(0x2c00 + (number * 131 + 977 * (unsigned)rank) % 0x1000); /* some octaves below 1 */
    default:
        return (uint16_t)(rank == 1 && step == STEPS - 1 ? INFINITE : 0x3c00);
    }
}

/* ---- what must come out ---- */

/* `sum`, `size`: of the ranks' numbers, and of their magnitudes. */
static bool
is_right(uint16_t bits, double sum, double size, bool narrow)
{
    const int ranks = DDP_WORLD_SIZE();
    if (isinf(sum))
        return value_of(bits) == sum;
    if (!narrow)
        return bits == nearest((float)sum / (float)ranks);
    const double off = fabs(value_of(bits) - sum / ranks);
    return off <= (ranks + 1) * 0x1p-11 * size / ranks + ranks * 0x1p-24;
}

static void
check(const uint16_t *found, int gradient, int step, bool narrow)
{
    for (size_t i = 0; i < counts[gradient]; ++i) {
        double sum = 0, size = 0;
        for (int rank = 0; rank < DDP_WORLD_SIZE(); ++rank) {
            const double value = value_of(input(rank, i, step));
            sum += value;
            size += fabs(value);
        }
        if (is_right(found[i], sum, size, narrow))
            continue;
        fprintf(stderr, "halves: step %d: element %zu of gradient %d is %a, and the mean is %a\n", step, i, gradient,
                value_of(found[i]), sum / DDP_WORLD_SIZE());
        exit(1);
    }
}

static uint16_t host[MOST];

/* The last one first. */
static void
write_gradients(uint16_t *const *gradients, int rank, int step)
{
    for (int g = GRADIENTS - 1; g >= 0; --g) {
        for (size_t i = 0; i < counts[g]; ++i)
            host[i] = input(rank, i, step);
        CHECK(cudaMemcpyAsync(gradients[g], host, counts[g] * sizeof(host[0]), cudaMemcpyHostToDevice, 0));
        CHECK(cudaStreamSynchronize(0));
    }
}

static void
train_in_turns(uint16_t *const *gradients)
{
    enum { BATCHES = 24 };
    uint16_t *parameters[GRADIENTS];
    for (int g = 0; g < GRADIENTS; ++g) {
        CHECK(cudaMalloc((void **)&parameters[g], counts[g] * sizeof(host[0])));
        CHECK(cudaMemset(parameters[g], 0, counts[g] * sizeof(host[0])));
        DDP_PARAMETER(parameters[g], counts[g], DDP_FLOAT16);
    }
    for (int batch = 0; batch < BATCHES; ++batch) {
        DDP_TURN_BEGIN();
        write_gradients(gradients, batch % 7, 0);
        DDP_STEP(0);
        for (int g = 0; g < GRADIENTS; ++g)
            CHECK(
                cudaMemcpyAsync(parameters[g], gradients[g], counts[g] * sizeof(host[0]), cudaMemcpyDeviceToDevice, 0));
    }
    for (int g = 0; g < GRADIENTS; ++g)
        CHECK(cudaFree(parameters[g]));
}

int
main(int argc, char **argv)
{
    uint16_t *gradients[GRADIENTS], *flat = NULL;
    const char *sent = argc > 2 ? argv[2] : "wide";
    const bool is_flat = argc > 1 && strcmp(argv[1], "flat") == 0, in_turns = strcmp(sent, "turns") == 0;
    uint64_t hash = 0;
    if (is_flat)
        CHECK(cudaMalloc((void **)&flat, GRADIENTS * MOST * sizeof(host[0])));
    for (int g = 0; g < GRADIENTS; ++g) {
        if (is_flat)
            gradients[g] = g == 0 ? flat : gradients[g - 1] + counts[g - 1];
        else
            CHECK(cudaMalloc((void **)&gradients[g], counts[g] * sizeof(host[0])));
        DDP_GRADIENT(gradients[g], counts[g], DDP_FLOAT16);
    }
    if (in_turns)
        train_in_turns(gradients);
    for (int step = 0; step < STEPS && !in_turns; ++step) {
        write_gradients(gradients, DDP_RANK(), step);
        DDP_STEP(0);
        for (int g = 0; g < GRADIENTS; ++g) {
            CHECK(cudaMemcpy(host, gradients[g], counts[g] * sizeof(host[0]), cudaMemcpyDeviceToHost));
            check(host, g, step, strcmp(sent, "narrow") == 0);
            for (size_t i = 0; i < counts[g]; ++i)
                hash = (hash ^ host[i]) * UINT64_C(0x100000001b3);
        }
    }
    printf("hash %016llx\n", (unsigned long long)hash);
    for (int g = 0; g < GRADIENTS && !is_flat; ++g)
        CHECK(cudaFree(gradients[g]));
    CHECK(cudaFree(flat));
    return 0;
}
