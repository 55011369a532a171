/*
 * oracle.h - what a run of N ranks must come to, by plain arithmetic in one process: of turns by state, or of averaged
 * gradients (by_gradients). For the trainers of plans, whose options say which. Without ranks nothing here calls CUDA
 * but save().
 *
 * By state: each of the N steps of a round starts from the state at the round's begin; at its end the state is begin +
 * mean(change). The first `offset` steps are as in one process, in front of the first round. border() ends a round
 * early, with the mean of the steps that it had. By gradients: update_due() says
 * no until the round's last step, and then puts the mean into the gradients; steps that make no whole round change
 * nothing.
 */
#ifndef TESTS_TOOLS_PLAN_ORACLE_H
#define TESTS_TOOLS_PLAN_ORACLE_H

#include "tests/lib/trainer.h"

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <vector>

/* STATE: averaged. RUNNING: as STATE; by gradients each rank's own. OWN: always each rank's own. Others: GRADIENT. */
enum array_class { STATE, RUNNING, OWN, GRADIENT };

/* Of an array of any type, exactly. */
typedef std::vector<double> values;

struct array {
    const char *name;
    enum array_class kind;
    values (*get)(const struct array &);
    void (*put)(const struct array &, const values &);
    double (*round)(double); /* to what sums and means are computed in: double of doubles, float of all other types */
    void *memory;
    size_t count;
    values begin, sum;
    std::vector<values> own; /* of each rank */
};

static struct {
    int ranks; /* 0: no oracle */
    int offset;
    bool is_alone; /* the step is one of these */
    int by_gradients;
    int turn;   /* steps that the round had */
    int misses; /* of these, without an update: by state they count in no mean */
    bool open;  /* in a step */
    std::vector<struct array> arrays;
} oracle;

template <typename T> struct computed_in {
    typedef float type;
};
template <> struct computed_in<double> {
    typedef double type;
};

template <typename T>
static values
array_get(const struct array &a)
{
    std::vector<T> host(a.count);
    values numbers;
    CHECK(cudaMemcpy(host.data(), a.memory, a.count * sizeof(T), cudaMemcpyDefault));
    for (const T &value : host)
        numbers.push_back((typename computed_in<T>::type)value);
    return numbers;
}

template <typename T>
static void
array_put(const struct array &a, const values &from)
{
    std::vector<T> host;
    for (double value : from)
        host.push_back((T)(typename computed_in<T>::type)value);
    CHECK(cudaMemcpy(a.memory, host.data(), a.count * sizeof(T), cudaMemcpyDefault));
}

template <typename T>
static double
array_round(double value)
{
    return (typename computed_in<T>::type)value;
}

/* What the program keeps from step to step, or averages. */
template <typename T>
static void
keep(const char *name, T *memory, int count, enum array_class kind = STATE)
{
    if (kind == RUNNING)
        kind = oracle.by_gradients ? OWN : STATE;
    oracle.arrays.push_back(
        {name, kind, array_get<T>, array_put<T>, array_round<T>, memory, (size_t)count, {}, {}, {}});
}

/* sum += now - before */
static inline void
add_change(struct array *a, const values &now, const values *before)
{
    a->sum.resize(now.size());
    for (size_t i = 0; i < now.size(); ++i)
        a->sum[i] = a->round(a->sum[i] + (before != NULL ? a->round(now[i] - (*before)[i]) : now[i]));
}

static inline void
turn_begin(void)
{
    for (struct array &a : oracle.arrays) {
        if (a.kind == OWN && a.own.empty())
            a.own.assign((size_t)oracle.ranks, a.get(a));
        if (a.kind == OWN)
            a.put(a, a.own[(size_t)oracle.turn]);
        if (oracle.turn == 0) {
            a.begin = a.kind == STATE ? a.get(a) : values();
            a.sum.assign(a.count, 0);
        }
    }
    oracle.open = true;
}

/* Rank 0's own is what is seen between rounds. */
static inline void
round_end(void)
{
    for (struct array &a : oracle.arrays) {
        if (a.kind == OWN && !a.own.empty())
            a.put(a, a.own[0]);
        if (a.kind != STATE || oracle.by_gradients || oracle.turn == 0)
            continue;
        for (size_t i = 0; i < a.count; ++i) {
            const int updates = oracle.turn > oracle.misses ? oracle.turn - oracle.misses : 1;
            a.begin[i] = a.round(a.begin[i] + a.round(a.sum[i] / updates));
        }
        a.put(a, a.begin);
    }
    oracle.turn = oracle.misses = 0;
}

static inline void
turn_end(void)
{
    if (!oracle.open)
        return;
    for (struct array &a : oracle.arrays) {
        if (a.kind == OWN)
            a.own[(size_t)oracle.turn] = a.get(a);
        if (a.kind != STATE || oracle.by_gradients)
            continue;
        add_change(&a, a.get(a), &a.begin);
        a.put(a, a.begin);
    }
    oracle.open = false;
    if (++oracle.turn == oracle.ranks)
        round_end();
}

/* Between two steps, in front of what reads or writes state. */
static inline void
border(void)
{
    turn_end();
    if (!oracle.by_gradients)
        round_end();
}

/* The condition of a loop of steps. */
static inline bool
turn(int step, int steps)
{
    turn_end();
    oracle.is_alone = step < oracle.offset;
    if (step < steps && oracle.ranks > 0 && !oracle.is_alone)
        turn_begin();
    return step < steps;
}

/* Gradients are complete: whether the program updates. */
static inline bool
update_due(void)
{
    if (oracle.is_alone)
        return true;
    bool last = oracle.turn + 1 == oracle.ranks;
    for (struct array &a : oracle.arrays) {
        if (a.kind != GRADIENT || !oracle.by_gradients)
            continue;
        add_change(&a, a.get(a), NULL);
        for (size_t i = 0; i < a.count && last; ++i)
            a.sum[i] = a.round(a.sum[i] / oracle.ranks);
        if (last)
            a.put(a, a.sum);
    }
    return last || !oracle.by_gradients;
}

/* Training has ended: writes what is kept to a file, one element a line. */
static inline void
save(const char *path)
{
    turn_end();
    round_end();
    FILE *file = fopen(path, "w");
    REQUIRE(file != NULL);
    for (const struct array &a : oracle.arrays)
        for (double value : a.kind != GRADIENT ? a.get(a) : values())
            fprintf(file, "%s %.9g\n", a.name, value);
    CHECK(fclose(file));
}

#endif
