/*
 * period.c - see finding.h.
 *
 * Memory that launches write counts by what it is; other memory by its size: batches that lie in memory of their own,
 * or one after the other, are all alike. A place that is new in each period (a history of losses) is like another one
 * that was new as many operations ago; where sizes do not count, so is memory that each period allocates.
 */

#include "tools/common/grown.h"
#include "tools/common/owned.h"
#include "tools/scout/command/analysis/rules.h"

/* A pointer to memory that launches write. */
struct pointer {
    uint32_t memory;
    uint64_t offset;
    uint32_t op;    /* of the log */
    uint32_t begun; /* the operation that was the first one in the place */
    uint32_t made;  /* where sizes do not count: operations before its allocation was made */
};

struct tokens {
    uint32_t first, count; /* operations of the log */
    uint64_t *what;        /* [count]: hash of all but places */
    uint32_t *at;          /* [count + 1]: their places begin there */
    struct pointer *places;
};

static uint64_t
mix(uint64_t token, uint64_t value)
{
    /* FNV-1a by words; what differs only has to differ */
    token = (token ^ value) * 1099511628211u;
    return token ^ (token >> 29);
}

/* ---- the places of operations ---- */

struct listing {
    const struct scout_log *log;
    const uint32_t *memory_of;
    const bool *written;
    struct pointer *places;
    uint32_t count;
    uint64_t what; /* of the operation that is listed */
    enum period_likeness likeness;
    bool sizes; /* count */
};

/* Adds a place that the operation names to its token: the memory's size or, where kernels write it, the place itself,
 * to be compared with that of other periods. */
static void
list_place(struct listing *listing, uint32_t op, uint32_t alloc, uint64_t offset)
{
    if (alloc == SCOUT_NONE) {
        listing->what = mix(listing->what, UINT64_MAX);
        return;
    }
    if (listing->sizes)
        listing->what = mix(listing->what, listing->log->allocs[alloc].bytes);
    const struct scout_alloc *allocs = listing->log->allocs; /* whether one from the same place was released before: */
    if (!listing->written[listing->memory_of[alloc]] &&
        (listing->sizes || !ANY(other, allocs, listing->log->alloc_count,
                                other->site == allocs[alloc].site && other->freed_at <= allocs[alloc].made_at)))
        return;
    listing->what = mix(listing->what, 3);
    *GROWN(listing->places, listing->count) = (struct pointer){
        listing->memory_of[alloc], offset, op, 0, listing->sizes ? 0 : (uint32_t)listing->log->allocs[alloc].made_at};
}

/* Makes the token of an operation: a hash of what it does (listing->what), and its places. */
static void
list_op(struct listing *listing, uint32_t number)
{
    const struct scout_op *op = &listing->log->ops[number];
    listing->what = mix(mix(1469598103934665603u, op->kind), op->name);
    if (op->kind == SCOUT_FILL || op->kind == SCOUT_COPY) {
        listing->what = listing->sizes ? mix(mix(listing->what, op->bytes), op->rows) : listing->what;
        bool is_any = listing->likeness == PERIOD_ANY_PLACE && op->kind == SCOUT_COPY && op->from.alloc == SCOUT_NONE;
        list_place(listing, number, op->to.alloc, is_any ? 0 : op->to.offset);
        if (op->kind == SCOUT_COPY)
            list_place(listing, number, op->from.alloc, op->from.offset);
        return;
    }
    for (int i = 0; i < 3; ++i)
        listing->what = mix(mix(listing->what, listing->sizes ? op->grid[i] : 0), op->block[i]);
    for (uint32_t i = 0; i < op->argument_count; ++i) {
        if (op->arguments[i].slot == UINT16_MAX) /* found in memory; the recorder has not compared it, either */
            continue;
        listing->what = mix(listing->what, op->arguments[i].slot);
        list_place(listing, number, op->arguments[i].alloc, op->arguments[i].offset);
    }
}

COMPARES(compare_places, struct pointer *, COMPARE(*a, *b, memory, COMPARE(*a, *b, offset, COMPARE(*a, *b, op, 0))))

/* Sets, for each place of the listing, the first operation that named the same place. */
static void
find_begun(struct listing *listing)
{
    OWNED struct pointer **sorted = xcalloc(listing->count + 1, sizeof(struct pointer *));
    for (uint32_t i = 0; i < listing->count; ++i)
        sorted[i] = &listing->places[i];
    qsort(sorted, listing->count, sizeof(struct pointer *), compare_places);
    for (uint32_t i = 0; i < listing->count; ++i) {
        bool again = i > 0 && sorted[i]->memory == sorted[i - 1]->memory && sorted[i]->offset == sorted[i - 1]->offset;
        sorted[i]->begun = again ? sorted[i - 1]->begun : sorted[i]->op;
    }
}

/* Marks the memories that operations [first, end) of the log write. */
static void
find_written(const struct scout_log *log, uint32_t first, uint32_t end, const uint32_t *memory_of, bool *written)
{
    for (uint32_t i = first; i < end; ++i) {
        const struct scout_effect *effect = log->ops[i].effect;
        FOR_EACH(it, effect->written, effect->written_count)
            written[memory_of[it->alloc]] |= it->ranges.count > 0;
        FOR_EACH(it, effect->segments, effect->segment_count)
            written[memory_of[it->alloc]] |= it->killed.count + it->modified.count > 0;
        FOR_EACH(it, effect->dependences, effect->dependence_count)
            written[memory_of[it->to]] |= it->changed.count > 0;
    }
}

/* The tokens of operations [first, end) of the log, by which periods are compared. tokens_free() releases them. */
static void
tokens_make(const struct scout_log *log, uint32_t first, uint32_t end, enum period_likeness likeness,
            struct tokens *tokens)
{
    OWNED uint32_t *memory_of = NULL;
    OWNED bool *written = xcalloc(graph_name_memories(log, &memory_of) + 1, sizeof(*written));
    find_written(log, first, end, memory_of, written);
    struct listing listing = {.log = log,
                              .memory_of = memory_of,
                              .written = written,
                              .likeness = likeness,
                              .sizes = likeness != PERIOD_ANY_SIZE};
    *tokens = (struct tokens){.first = first,
                              .count = end - first,
                              .what = xcalloc(end - first + 1, sizeof(*tokens->what)),
                              .at = xcalloc(end - first + 1, sizeof(*tokens->at))};
    for (uint32_t i = 0; i < end; ++i) {
        if (i >= first)
            tokens->at[i - first] = listing.count;
        list_op(&listing, i);
        if (i >= first)
            tokens->what[i - first] = listing.what;
    }
    tokens->at[end - first] = listing.count;
    find_begun(&listing);
    tokens->places = listing.places;
}

/* ---- what repeats ---- */

/* Whether operation i, from the first token, does what the one `lag` operations before does: on the same places, or on
 * places that are as new. */
static bool
is_alike(const struct tokens *tokens, uint32_t i, uint32_t lag)
{
    uint32_t count = tokens->at[i + 1] - tokens->at[i], op = tokens->first + i;
    if (tokens->what[i] != tokens->what[i - lag] || count != tokens->at[i - lag + 1] - tokens->at[i - lag])
        return false;
    for (uint32_t k = 0; k < count; ++k) {
        const struct pointer *a = &tokens->places[tokens->at[i] + k], *b = &tokens->places[tokens->at[i - lag] + k];
        bool same = a->memory == b->memory && a->offset == b->offset;
        bool both_new = (op - a->begun < lag && op - a->begun == op - lag - b->begun) ||
                        (op - a->made < lag && op - a->made == op - lag - b->made);
        if (!same && !both_new)
            return false;
    }
    return true;
}

uint32_t
periods_find(const struct scout_log *log, uint32_t first, uint32_t end, enum period_likeness likeness,
             struct period *periods, uint32_t room)
{
    struct tokens tokens;
    uint32_t found = 0;
    tokens_make(log, first, end, likeness, &tokens);
    for (uint32_t lag = 1; lag <= tokens.count / 3 && found < room; ++lag) {
        uint32_t run = 0;
        struct period best = {.lag = lag};
        for (uint32_t i = lag; i < tokens.count; ++i) {
            run = is_alike(&tokens, i, lag) ? run + 1 : 0;
            if (run > best.run) {
                best.run = run;
                best.end = first + i + 1;
            }
        }
        if (best.run >= 2 * lag)
            periods[found++] = best;
    }
    free(tokens.what);
    free(tokens.at);
    free(tokens.places);
    return found;
}
