/*
 * measured.c - see measured.h.
 */
#include "bucketing/measured.h"

#include "bucketing/partition.h"

#include <stdlib.h>
#include <string.h>

/* A plan under construction. Arrays have room for `capacity` pieces. */
struct draft {
    struct plan_piece *whence; /* piece i is this of its gradient, */
    struct ready_piece *ready; /* and ready then */
    size_t *ends;              /* of buckets */
    size_t *trial;             /* ends of a candidate */
    struct ready_piece *later; /* scratch: a scenario */
    size_t count, capacity;
    size_t bucket_count;
    int64_t end_fs;
};

static void
draft_free(struct draft *draft)
{
    if (draft == NULL)
        return;
    free(draft->whence);
    free(draft->ready);
    free(draft->ends);
    free(draft->trial);
    free(draft->later);
    free(draft);
}

static struct draft *
draft_new(size_t capacity)
{
    struct draft *draft = calloc(1, sizeof(*draft));
    if (draft == NULL)
        return NULL;
    draft->capacity = capacity;
    draft->whence = malloc((capacity + 1) * sizeof(draft->whence[0]));
    draft->ready = malloc((capacity + 1) * sizeof(draft->ready[0]));
    draft->ends = malloc((capacity + 1) * sizeof(draft->ends[0]));
    draft->trial = malloc((capacity + 1) * sizeof(draft->trial[0]));
    draft->later = malloc((capacity + 1) * sizeof(draft->later[0]));
    if (draft->whence == NULL || draft->ready == NULL || draft->ends == NULL || draft->trial == NULL ||
        draft->later == NULL) {
        draft_free(draft);
        return NULL;
    }
    return draft;
}

/* ---- which order ---- */

struct place {
    size_t gradient;
    int64_t ready_ns;
    size_t position; /* in the order that was given, or was sorted before */
    int group;       /* of gradients of one type in one window; 0 before that */
    uint64_t window;
};

static int
compare_places(const void *a, const void *b)
{
    const struct place *left = a, *right = b;
    if (left->window != right->window)
        return left->window < right->window ? -1 : 1;
    if (left->group != right->group)
        return left->group < right->group ? -1 : 1;
    if (left->group == 0 && left->ready_ns != right->ready_ns)
        return left->ready_ns < right->ready_ns ? -1 : 1;
    return left->position < right->position ? -1 : left->position > right->position;
}

static struct place *
places_by_ready(const int64_t *ready_ns, const size_t *order, size_t count)
{
    struct place *places = calloc(count + 1, sizeof(*places));
    for (size_t i = 0; places != NULL && i < count; ++i) {
        if (order[i] >= count) {
            free(places);
            return NULL;
        }
        places[i] = (struct place){.gradient = order[i], .ready_ns = ready_ns[order[i]], .position = i};
    }
    if (places != NULL)
        qsort(places, count, sizeof(places[0]), compare_places);
    for (size_t i = 0; places != NULL && i < count; ++i)
        places[i].position = i;
    return places;
}

enum { TYPES_TOLD_APART = 16 }; /* more would only stay as apart as they are */

/* Small numbers for types, from 1, in the order in which they come. */
static int
group_of(int type, int *types, int *type_count)
{
    for (int t = 0; t < *type_count; ++t) {
        if (types[t] == type)
            return t + 1;
    }
    if (*type_count == TYPES_TOLD_APART)
        return TYPES_TOLD_APART;
    types[(*type_count)++] = type;
    return *type_count;
}

static void
sort_by_ready(struct place *places, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        places[i].group = 0;
        places[i].window = 0;
    }
    qsort(places, count, sizeof(places[0]), compare_places);
}

/*
 * Where types take turns in the order, each turn would be a bucket. This brings together what is of one type among the
 * gradients of each of `windows` equal parts of all bytes; the best number of windows is found by trying. Returns how
 * many types there are.
 */
static int
sort_by_type(struct place *places, const struct plan_gradient *gradients, size_t count, uint64_t total_bytes,
             uint64_t windows)
{
    int types[TYPES_TOLD_APART], type_count = 0;
    uint64_t bytes = 0;
    sort_by_ready(places, count);
    for (size_t i = 0; i < count; ++i) {
        const struct plan_gradient *gradient = &gradients[places[i].gradient];
        places[i].group = group_of(gradient->type, types, &type_count);
        places[i].window = (uint64_t)((unsigned __int128)bytes * windows / (total_bytes + 1));
        bytes += gradient->bytes;
    }
    qsort(places, count, sizeof(places[0]), compare_places);
    return type_count;
}

/* ---- which pieces ---- */

/* Fills the draft's pieces: gradients above `grain` bytes in pieces of about that, the others whole. */
static bool
set_pieces(struct draft *draft, const struct place *places, const struct plan_gradient *gradients, size_t count,
           uint64_t grain)
{
    int64_t ready_ns = 0;
    draft->count = 0;
    for (size_t i = 0; i < count; ++i) {
        const struct plan_gradient *gradient = &gradients[places[i].gradient];
        ready_ns = places[i].ready_ns > ready_ns ? places[i].ready_ns : ready_ns;
        uint64_t each = grain > 0 && gradient->bytes > grain ? grain : gradient->bytes;
        for (uint64_t at = 0; at < gradient->bytes; at += each) {
            uint64_t left = gradient->bytes - at, bytes = left < each ? left : each;
            if (draft->count == draft->capacity)
                return false;
            draft->whence[draft->count] = (struct plan_piece){places[i].gradient, at, bytes};
            draft->ready[draft->count++] = (struct ready_piece){ready_ns, bytes, gradient->type};
        }
    }
    return true;
}

/* ---- which buckets ---- */

enum { SCENARIOS = 8, BLOCKS = 16, SPREAD = 100 /* thousandths */ };

/* A step of a fixed generator (Knuth's MMIX): the same numbers on every rank. */
static int64_t
next_thousandths(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)(*state >> 33) % (2 * SPREAD + 1) - SPREAD;
}

/* Ready times as they may come another day: each stretch of backward is up to a tenth faster or slower. */
static void
set_scenario(struct draft *draft, uint64_t seed)
{
    uint64_t state = seed;
    int64_t was_ns = 0, is_ns = 0, block = 0;
    for (size_t i = 0; i < draft->count; ++i) {
        if (i % (draft->count / BLOCKS + 1) == 0)
            block = next_thousandths(&state);
        int64_t step_ns = draft->ready[i].ready_ns - was_ns;
        was_ns = draft->ready[i].ready_ns;
        is_ns += step_ns + step_ns / 1000 * ((block + next_thousandths(&state)) / 2);
        draft->later[i] = draft->ready[i];
        draft->later[i].ready_ns = is_ns;
    }
}

/* How a candidate does when nothing comes quite as measured: the mean of its ends. */
static int64_t
mean_end_fs(struct draft *draft, const struct cost *cost, const size_t *ends, size_t bucket_count)
{
    int64_t sum_fs = 0;
    for (uint64_t s = 0; s < SCENARIOS; ++s) {
        set_scenario(draft, s + 1);
        sum_fs += partition_end_fs(draft->later, cost, ends, bucket_count) / SCENARIOS;
    }
    return sum_fs;
}

/* What partition_merged() is asked for, in thousandths, fewest buckets first, then least cautious first. */
static const struct {
    unsigned slack, margin;
} asked[] = {{2, 0}, {0, 0}, {0, 10}, {0, 30}, {0, 100}, {0, 300}};

enum { ASKED = sizeof(asked) / sizeof(asked[0]), TOLERATED = 1 /* thousandth */ };

/* Puts into the draft the candidate with the fewest buckets among those that do within a thousandth as well as any. */
static bool
choose_buckets(struct draft *draft, const struct cost *cost)
{
    int64_t mean_fs[ASKED], least_fs = INT64_MAX;
    size_t bucket_counts[ASKED], chosen = 0;
    int64_t best_end_fs, end_fs;
    if (partition_best(draft->ready, draft->count, cost, draft->trial, &bucket_counts[0], &best_end_fs) != PARTITION_OK)
        return false;
    for (size_t a = 0; a < ASKED; ++a) {
        if (partition_merged(draft->ready, draft->count, cost, best_end_fs / 1000 * asked[a].slack, asked[a].margin,
                             draft->trial, &bucket_counts[a], &end_fs) != PARTITION_OK)
            return false;
        mean_fs[a] = mean_end_fs(draft, cost, draft->trial, bucket_counts[a]);
        least_fs = mean_fs[a] < least_fs ? mean_fs[a] : least_fs;
    }
    for (size_t a = 0; a < ASKED; ++a) {
        bool good = mean_fs[a] <= least_fs + least_fs / 1000 * TOLERATED;
        bool chosen_is_good = mean_fs[chosen] <= least_fs + least_fs / 1000 * TOLERATED;
        if (good && (!chosen_is_good || bucket_counts[a] < bucket_counts[chosen]))
            chosen = a;
    }
    return partition_merged(draft->ready, draft->count, cost, best_end_fs / 1000 * asked[chosen].slack,
                            asked[chosen].margin, draft->ends, &draft->bucket_count, &draft->end_fs) == PARTITION_OK;
}

/* ---- all of it ---- */

enum { PIECES_OF_ALL = 256, WINDOWS_AT_MOST = 64 };

/* The draft for these places, whole or in pieces; NULL when it cannot be had. */
static struct draft *
draft_for(const struct place *places, const struct plan_gradient *gradients, size_t count, uint64_t grain,
          const struct cost *cost)
{
    struct draft *draft = draft_new(count + (grain > 0 ? PIECES_OF_ALL : 0));
    if (draft != NULL && set_pieces(draft, places, gradients, count, grain) && choose_buckets(draft, cost))
        return draft;
    draft_free(draft);
    return NULL;
}

/* Keeps the better of two drafts, and frees the other; `gain` is how many thousandths of its end are worth a change. */
static struct draft *
better_of(struct draft *kept, struct draft *other, int gain)
{
    bool better = kept != NULL && other != NULL && other->end_fs < kept->end_fs - kept->end_fs / 1000 * gain;
    if (kept == NULL || better) {
        draft_free(kept);
        return other;
    }
    draft_free(other);
    return kept;
}

/* The size to cut large gradients into: a power of two, as the sizes of a measured table are. */
static uint64_t
grain_of(uint64_t total_bytes)
{
    _Static_assert(PLAN_LEAST_SPLIT_BYTES / 4 % PLAN_CUT_BYTES == 0, "pieces begin where gradients may be cut");
    uint64_t grain = PLAN_LEAST_SPLIT_BYTES / 4;
    while (grain < total_bytes / PIECES_OF_ALL)
        grain *= 2;
    return grain;
}

static struct draft *
best_draft(struct place *places, const struct plan_gradient *gradients, size_t count, const struct cost *cost)
{
    uint64_t total_bytes = 0;
    for (size_t i = 0; i < count; ++i)
        total_bytes += gradients[i].bytes;

    /* With a cost that is a latency and a bandwidth, cutting gains nothing; with a measured one it may. */
    uint64_t grain = grain_of(total_bytes);
    struct draft *draft = draft_for(places, gradients, count, 0, cost);
    if (draft != NULL)
        draft = better_of(draft, draft_for(places, gradients, count, grain, cost), 1);
    for (uint64_t windows = 1; draft != NULL && windows <= WINDOWS_AT_MOST; windows *= 2) {
        if (sort_by_type(places, gradients, count, total_bytes, windows) < 2)
            break;
        draft = better_of(draft, draft_for(places, gradients, count, 0, cost), 0);
        draft = better_of(draft, draft_for(places, gradients, count, grain, cost), 1);
    }
    return draft;
}

const struct plan *
plan_build_measured(uint32_t version, const struct plan_gradient *gradients, const int64_t *ready_ns,
                    const size_t *order, size_t count, const struct cost *cost, struct plan_forecast *forecast_p)
{
    struct place *places = places_by_ready(ready_ns, order, count);
    struct draft *draft = places != NULL ? best_draft(places, gradients, count, cost) : NULL;
    const struct plan *plan = NULL;
    struct plan_forecast forecast;
    if (draft != NULL)
        plan = plan_of_pieces(version, gradients, count, draft->whence, draft->count, draft->ends, draft->bucket_count);
    if (plan != NULL && !plan_forecast(plan, ready_ns, cost, &forecast)) {
        plan_free(plan);
        plan = NULL;
    }
    if (plan != NULL)
        *forecast_p = forecast;
    draft_free(draft);
    free(places);
    return plan;
}

/* ---- forecasts ---- */

static int
compare_ready(const void *a, const void *b)
{
    const struct ready_piece *left = a, *right = b;
    return left->ready_ns < right->ready_ns ? -1 : left->ready_ns > right->ready_ns;
}

bool
plan_forecast(const struct plan *plan, const int64_t *ready_ns, const struct cost *cost,
              struct plan_forecast *forecast_p)
{
    size_t count = plan->piece_count;
    struct ready_piece *pieces = calloc(2 * count + 1, sizeof(*pieces)), *sorted = pieces + count;
    size_t *ends = calloc(plan->bucket_count + 1, sizeof(*ends));
    bool told = pieces != NULL && ends != NULL;
    for (size_t i = 0; told && i < count; ++i)
        pieces[i] = (struct ready_piece){ready_ns[plan->pieces[i].gradient], plan->pieces[i].bytes, 0};
    for (size_t k = 0; told && k < plan->bucket_count; ++k)
        ends[k] = plan->buckets[k].first + plan->buckets[k].count;
    if (told) {
        memcpy(sorted, pieces, count * sizeof(pieces[0]));
        qsort(sorted, count, sizeof(sorted[0]), compare_ready); /* the bound is one for every order */
        told = partition_check(sorted, count, cost) == PARTITION_OK;
    }
    if (told)
        *forecast_p = (struct plan_forecast){
            .end_ns = partition_end_fs(pieces, cost, ends, plan->bucket_count) / COST_FS_PER_NS,
            .bound_ns = partition_bound_fs(sorted, count, cost) / COST_FS_PER_NS,
        };
    free(pieces);
    free(ends);
    return told;
}
