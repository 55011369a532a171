/*
 * oracle.h - what a run of N ranks must come to, by plain arithmetic in one process: `--oracle N` of turns by state,
 * `--oracle-gradients N` of averaged gradients. For the trainers of this folder. Without these options nothing here
 * calls CUDA but save().
 *
 * By state: each of the N steps of a round starts from the state at the round's begin; at its end the state is begin +
 * mean(change). border() ends a round early, with the mean of the steps that it had. By gradients: update_due() says
 * no until the round's last step, and then puts the mean into the gradients; steps that make no whole round change
 * nothing. A program without gradients that could be averaged is a program by state, but for border().
 */
#ifndef TESTS_TOOLS_PLAN_HABITS_ORACLE_H
#define TESTS_TOOLS_PLAN_HABITS_ORACLE_H

#include "tests/trainer.h"

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <vector>

/* STATE: averaged. RUNNING: as STATE; by gradients each rank's own. OWN: always each rank's own. Others: GRADIENT. */
enum array_class { STATE, RUNNING, OWN, GRADIENT };
enum array_type { FLOAT, HALF, INT8 };

typedef std::vector<float> values;

struct array {
    const char *name;
    void *memory;
    size_t count;
    enum array_class kind;
    enum array_type type;
    values begin, sum;
    std::vector<values> own; /* of each rank */
};

static struct {
    int ranks; /* 0: no oracle */
    int by_gradients;
    int turn;  /* steps that the round had */
    bool open; /* in a step */
    bool has_gradients;
    std::vector<struct array> arrays;
} oracle;

static inline void
keep_as(enum array_type type, const char *name, void *memory, size_t count, enum array_class kind)
{
    oracle.arrays.push_back({name, memory, count, kind, type, {}, {}, {}});
    oracle.has_gradients |= kind == GRADIENT;
}

/* What the program keeps from step to step, or averages. */
static inline void
keep(const char *name, float *memory, size_t count, enum array_class kind = STATE)
{
    keep_as(FLOAT, name, memory, count, kind);
}

static inline values
get(const struct array &a)
{
    values got(a.count);
    std::vector<char> bytes(a.count * (a.type == FLOAT ? 4 : a.type == HALF ? 2 : 1));
    CHECK(cudaMemcpy(bytes.data(), a.memory, bytes.size(), cudaMemcpyDefault));
    for (size_t i = 0; i < a.count; ++i)
        got[i] = a.type == FLOAT  ? ((float *)bytes.data())[i]
                 : a.type == HALF ? __half2float(((__half *)bytes.data())[i])
                                  : (float)((int8_t *)bytes.data())[i];
    return got;
}

static inline void
put(const struct array &a, const values &from)
{
    std::vector<char> bytes(a.count * 4);
    for (size_t i = 0; i < a.count; ++i)
        if (a.type == FLOAT)
            ((float *)bytes.data())[i] = from[i];
        else if (a.type == HALF)
            ((__half *)bytes.data())[i] = __float2half(from[i]);
        else
            ((int8_t *)bytes.data())[i] = (int8_t)from[i];
    CHECK(cudaMemcpy(a.memory, bytes.data(),
                     a.count * (a.type == FLOAT  ? 4
                                : a.type == HALF ? 2
                                                 : 1),
                     cudaMemcpyDefault));
}

/* Whether the mean of changes makes its next value. */
static inline bool
is_averaged(const struct array &a)
{
    bool averages_gradients = oracle.by_gradients && oracle.has_gradients;
    return averages_gradients ? false : a.kind == STATE || a.kind == RUNNING;
}

static inline bool
is_own(const struct array &a)
{
    return a.kind == OWN || (a.kind == RUNNING && !is_averaged(a));
}

static inline void
add_to(values *sum, const values &now, const values *minus)
{
    sum->resize(now.size());
    for (size_t i = 0; i < now.size(); ++i)
        (*sum)[i] += minus != NULL ? now[i] - (*minus)[i] : now[i];
}

static inline void
turn_begin(void)
{
    for (struct array &a : oracle.arrays) {
        if (is_own(a) && a.own.empty())
            a.own.assign((size_t)oracle.ranks, get(a));
        if (is_own(a))
            put(a, a.own[(size_t)oracle.turn]);
        if (is_averaged(a) && oracle.turn == 0) {
            a.begin = get(a);
            a.sum.assign(a.count, 0.0f);
        }
    }
    oracle.open = true;
}

/* The round ends: `turns` steps count. Rank 0's own is what is seen between rounds. */
static inline void
round_end(int turns)
{
    for (struct array &a : oracle.arrays) {
        if (is_own(a) && !a.own.empty())
            put(a, a.own[0]);
        if (!is_averaged(a) || oracle.turn == 0)
            continue;
        for (size_t i = 0; i < a.count && turns > 0; ++i)
            a.begin[i] += a.sum[i] / (float)turns;
        put(a, a.begin);
    }
    oracle.turn = 0;
}

static inline void
turn_end(void)
{
    if (!oracle.open)
        return;
    for (struct array &a : oracle.arrays) {
        if (is_own(a))
            a.own[(size_t)oracle.turn] = get(a);
        if (is_averaged(a)) {
            add_to(&a.sum, get(a), &a.begin);
            put(a, a.begin);
        }
    }
    oracle.open = false;
    if (++oracle.turn == oracle.ranks)
        round_end(oracle.ranks);
}

/* Between two steps, in front of what reads or writes state. */
static inline void
border(void)
{
    turn_end();
    if (!oracle.by_gradients)
        round_end(oracle.turn);
}

/* The condition of a loop of steps. */
static inline bool
turn(int step, int steps)
{
    turn_end();
    if (step < steps && oracle.ranks > 0)
        turn_begin();
    return step < steps;
}

/* Gradients are complete: whether the program updates. */
static inline bool
update_due(void)
{
    if (!oracle.by_gradients || !oracle.has_gradients)
        return true;
    bool last = oracle.turn + 1 == oracle.ranks;
    for (struct array &a : oracle.arrays) {
        if (a.kind != GRADIENT)
            continue;
        add_to(&a.sum, get(a), NULL);
        for (size_t i = 0; i < a.count && last; ++i)
            a.sum[i] /= (float)oracle.ranks;
        if (last) {
            put(a, a.sum);
            a.sum.clear();
        }
    }
    return last;
}

/* Training has ended: writes what is kept to a file, one element a line. */
static inline void
save(const char *path)
{
    round_end(oracle.by_gradients ? 0 : oracle.turn);
    FILE *file = path != NULL ? fopen(path, "w") : NULL;
    REQUIRE(path == NULL || file != NULL);
    for (const struct array &a : oracle.arrays) {
        if (a.kind == GRADIENT || file == NULL)
            continue;
        for (float value : get(a))
            fprintf(file, "%s %.9g\n", a.name, value);
    }
    CHECK(file != NULL && fclose(file));
}

#endif
