/*
 * partition.c - how good is the plan of buckets when nothing comes quite as it was measured?
 *
 * For models of published sizes and links of many kinds: a plan is made from learned ready times, and then meets other
 * ones: every day another, each operation up to a tenth faster or slower, on several ranks that begin up to a fiftieth
 * of backward apart. Its step end (begin of backward to end of the last all-reduce) is compared with the end of the
 * best partition for just these times, known in hindsight; beside it PyTorch's rule (25 MiB, the first bucket 1 MiB)
 * and one bucket. Arithmetic only: it runs anywhere and repeats to the last digit. Exit code 1: the plan misses its bar
 * on a model.
 */
#include "bucketing/partition.h"
#include "bucketing/measured.h"
#include "models.h"
#include "tools/common/each.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 8, SPREAD_PERCENT = 10, SKEW_PERCENT = 2, REGRET_PERCENT = 2, TRIALS = 20 };

static const double gbytes_per_s[] = {1, 4, 16, 64, 200, 400};
static const int latencies_us[] = {5, 50, 250, 1000};
enum { LINKS = sizeof(gbytes_per_s) / sizeof(gbytes_per_s[0]), LATENCIES = sizeof(latencies_us) / sizeof(int) };

enum rule { RULE_MEASURED, RULE_PYTORCH, RULE_ONE, RULES };
static const char *const rule_names[RULES] = {"measured", "25 MiB + 1 MiB", "one bucket"};

/* ---- plans by each rule ---- */

/* A bucket closes when it holds its limit or more; the first limit is 1 MiB, the others 25 MiB (facts: reducer.hpp). */
static const struct plan *
pytorch_plan(const struct model *model)
{
    struct plan_piece *pieces = array(model->count, sizeof(*pieces));
    size_t *ends = array(model->count, sizeof(*ends)), buckets = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < model->count; ++i) {
        pieces[i] = (struct plan_piece){i, 0, model->gradients[i].bytes};
        bytes += pieces[i].bytes;
        if (bytes >= (buckets == 0 ? 1u << 20 : 25u << 20) || i + 1 == model->count) {
            ends[buckets++] = i + 1;
            bytes = 0;
        }
    }
    const struct plan *plan = plan_of_pieces(1, model->gradients, model->count, pieces, model->count, ends, buckets);
    free(pieces);
    free(ends);
    return plan;
}

static const struct plan *
plan_by(enum rule rule, const struct model *model, const struct cost *cost)
{
    struct plan_forecast forecast;
    const struct plan *plan =
        rule == RULE_MEASURED
            ? plan_build_measured(1, model->gradients, model->ready_ns, model->order, model->count, cost, &forecast)
        : rule == RULE_PYTORCH ? pytorch_plan(model)
                               : plan_build(1, model->gradients, model->order, model->count, UINT64_MAX);
    if (plan == NULL) {
        fprintf(stderr, "bench: no plan for %s\n", model->name);
        exit(1);
    }
    return plan;
}

/* ---- what really comes ---- */

/* From -1 to 1; a fixed generator, so that every run is the same. */
static double
next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*state >> 33) / (double)(UINT32_MAX >> 1) * 2.0 - 1.0; /* 31 bits */
}

/* The latest ready times over the ranks, in one trial. */
static void
real_times(const struct model *model, uint64_t trial, int64_t *real_ns)
{
    uint64_t state = 1000003 * (trial + 1);
    double day = 1.0 + SPREAD_PERCENT / 100.0 * next_random(&state);
    memset(real_ns, 0, model->count * sizeof(*real_ns));
    for (int r = 0; r < RANKS; ++r) {
        double ns = SKEW_PERCENT / 100.0 * (double)model->backward_ns * (next_random(&state) + 1.0) / 2.0;
        for (size_t i = 0; i < model->count; ++i) {
            ns += (double)model->spent_ns[i] * day * (1.0 + SPREAD_PERCENT / 100.0 * next_random(&state));
            real_ns[i] = (int64_t)ns > real_ns[i] ? (int64_t)ns : real_ns[i];
        }
    }
}

static int64_t
hindsight_ns(const struct model *model, const int64_t *real_ns, const struct cost *cost)
{
    struct ready_piece *pieces = array(model->count, sizeof(*pieces));
    size_t *ends = array(model->count, sizeof(*ends)), buckets;
    int64_t end_fs;
    for (size_t i = 0; i < model->count; ++i)
        pieces[i] = (struct ready_piece){real_ns[i], model->gradients[i].bytes, 0};
    if (partition_best(pieces, model->count, cost, ends, &buckets, &end_fs) != PARTITION_OK) {
        fprintf(stderr, "bench: no partition for %s\n", model->name);
        exit(1);
    }
    free(pieces);
    free(ends);
    return end_fs / COST_FS_PER_NS;
}

static int64_t
end_ns(const struct plan *plan, const int64_t *ready_ns, const struct cost *cost)
{
    struct plan_forecast forecast;
    if (!plan_forecast(plan, ready_ns, cost, &forecast))
        exit(1);
    return forecast.end_ns;
}

/* ---- measuring ---- */

struct regrets {
    double *values[RULES]; /* in percent */
    size_t count;
};

/* All trials of one model: days. */
struct trials {
    int64_t *real_ns[TRIALS]; /* [gradients] */
    struct regrets regrets;
};

static void
measure_link(const struct model *model, const struct cost *cost, struct trials *trials)
{
    struct regrets *regrets = &trials->regrets;
    const struct plan *plans[RULES];
    for (enum rule rule = 0; rule < RULES; ++rule)
        plans[rule] = plan_by(rule, model, cost);
    for (int t = 0; t < TRIALS; ++t) {
        double best = (double)hindsight_ns(model, trials->real_ns[t], cost);
        for (enum rule rule = 0; rule < RULES; ++rule)
            regrets->values[rule][regrets->count] =
                100.0 * ((double)end_ns(plans[rule], trials->real_ns[t], cost) / best - 1.0);
        ++regrets->count;
    }
    for (enum rule rule = 0; rule < RULES; ++rule)
        plan_free(plans[rule]);
}

static void
measure_links(const struct model *model, struct trials *trials)
{
    for (size_t b = 0; b < LINKS; ++b) {
        for (size_t l = 0; l < LATENCIES; ++l) {
            struct cost cost;
            if (!cost_of_link(latencies_us[l] * INT64_C(1000), gbytes_per_s[b] * 1000.0, &cost))
                exit(1);
            measure_link(model, &cost, trials);
        }
    }
}

COMPARES(compare, double, (*a > *b) - (*a < *b))

static void
print_figure(const char *name, double value, const char *unit, const char *bar, const char *holds)
{
    printf("%-58s %10.4g %-8s %-10s %s\n", name, value, unit, bar, holds);
}

/* Returns whether the plan of buckets holds its bar; the other rules have none. */
static bool
report_regrets(const char *model, const struct regrets *regrets, enum rule rule)
{
    char name[120];
    double *values = regrets->values[rule];
    size_t within = 0;
    qsort(values, regrets->count, sizeof(values[0]), compare);
    while (within < regrets->count && values[within] <= REGRET_PERCENT)
        ++within;
    double share = (double)within / (double)regrets->count;
    snprintf(name, sizeof(name), "%s, %s: share within %d %%", model, rule_names[rule], REGRET_PERCENT);
    bool holds = rule != RULE_MEASURED || share >= 0.9;
    if (rule == RULE_MEASURED)
        print_figure(name, share, "share", ">= 0.9", holds ? "yes" : "NO");
    else
        print_figure(name, share, "share", "-", "-");
    snprintf(name, sizeof(name), "%s, %s: 90th percentile of regret", model, rule_names[rule]);
    print_figure(name, values[regrets->count * 9 / 10], "%", "-", "-");
    snprintf(name, sizeof(name), "%s, %s: largest regret", model, rule_names[rule]);
    print_figure(name, values[regrets->count - 1], "%", "-", "-");
    return holds;
}

/* Returns whether the plan of buckets holds its bar on this model. */
static bool
measure_model(const struct model *model, struct regrets *all)
{
    struct trials trials = {.regrets = {.count = 0}};
    bool holds = true;
    for (int t = 0; t < TRIALS; ++t) {
        trials.real_ns[t] = array(model->count, sizeof(int64_t));
        real_times(model, (uint64_t)t, trials.real_ns[t]);
    }
    for (enum rule rule = 0; rule < RULES; ++rule)
        trials.regrets.values[rule] = array((size_t)TRIALS * LINKS * LATENCIES, sizeof(double));

    measure_links(model, &trials);
    for (enum rule rule = 0; rule < RULES; ++rule) {
        memcpy(all->values[rule] + all->count, trials.regrets.values[rule], trials.regrets.count * sizeof(double));
        holds = report_regrets(model->name, &trials.regrets, rule) && holds;
        free(trials.regrets.values[rule]);
    }
    all->count += trials.regrets.count;
    for (int t = 0; t < TRIALS; ++t)
        free(trials.real_ns[t]);
    return holds;
}

static void
print_conditions(const struct model *models)
{
    printf(
        "Regret: step end (from the begin of backward) over the end of the best partition in hindsight, less 1.\n"
        "%zu links (1 to 400 GB/s, latency 5 us to 1 ms: time of an all-reduce = latency + bytes / bandwidth) x %d\n"
        "trials; %d ranks that begin up to %d %% of backward apart; each trial all operations up to %d %% faster or\n"
        "slower, and each of them up to %d %% by itself on each rank. Gradients float32. Learned: no deviation.\n",
        (size_t)LINKS * LATENCIES, TRIALS, RANKS, SKEW_PERCENT, SPREAD_PERCENT, SPREAD_PERCENT);
    for (size_t m = 0; m < MODEL_COUNT; ++m)
        printf("%-14s %5zu tensors, %8.1f MB of gradients, backward %.2f ms\n", models[m].name, models[m].count,
               (double)models[m].bytes / 1e6, (double)models[m].backward_ns / 1e6);
    printf("\n");
}

int
main(void)
{
    struct model models[MODEL_COUNT];
    struct regrets all = {.count = 0};
    bool holds = true;
    for (enum rule rule = 0; rule < RULES; ++rule)
        all.values[rule] = array((size_t)TRIALS * LINKS * LATENCIES * MODEL_COUNT, sizeof(double));
    for (size_t m = 0; m < MODEL_COUNT; ++m)
        model_make(m, &models[m]);
    print_conditions(models);
    printf("%-58s %10s %-8s %-10s %s\n", "figure", "value", "unit", "bar", "holds");
    for (size_t m = 0; m < MODEL_COUNT; ++m)
        holds = measure_model(&models[m], &all) && holds;
    for (enum rule rule = 0; rule < RULES; ++rule) {
        holds = report_regrets("all models", &all, rule) && holds;
        free(all.values[rule]);
    }
    for (size_t m = 0; m < MODEL_COUNT; ++m)
        model_free(&models[m]);
    return holds ? 0 : 1;
}
