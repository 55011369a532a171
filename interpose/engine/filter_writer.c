/*
 * filter_writer.c - see filter_writer.h.
 */
#include "interpose/engine/filter_writer.h"

#include <stdlib.h>

enum { SLOTS_AT_FIRST = 256, BUCKETS_AT_LEAST = 64 };

static const struct filter_kernel no_kernel = {.words = {FILTER_LIST_END}};

/* ---- ranges ---- */

static void
store(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
}

static void
begin_change(struct filter *filter)
{
    store(&filter->version, atomic_load_explicit(&filter->version, memory_order_relaxed) + 1);
}

static void
end_change(struct filter *filter)
{
    store(&filter->version, atomic_load_explicit(&filter->version, memory_order_relaxed) + 1);
}

void
filter_set_bounds(struct filter *filter, uint64_t lowest, uint64_t highest)
{
    begin_change(filter);
    atomic_store_explicit(&filter->index, NULL, memory_order_release);
    store(&filter->lowest, lowest);
    store(&filter->span, lowest < highest ? highest - lowest : 0);
    end_change(filter);
}

static struct filter_index *
make_index(size_t buckets, size_t ranges)
{
    struct filter_index *index = calloc(1, sizeof(*index));
    if (index == NULL)
        return NULL;
    index->bucket_capacity = buckets;
    index->range_capacity = ranges;
    index->first = calloc(buckets + 1, sizeof(*index->first));
    index->ranges = calloc(ranges, sizeof(*index->ranges));
    if (index->first != NULL && index->ranges != NULL)
        return index;
    free(index->first);
    free(index->ranges);
    free(index);
    return NULL;
}

/* One that holds `count` ranges: the last one again, if it is large enough. */
static struct filter_index *
index_for(struct filter *filter, size_t count)
{
    size_t buckets = BUCKETS_AT_LEAST;
    while (buckets < 2 * count)
        buckets *= 2;
    if (filter->kept == NULL || filter->kept->bucket_capacity < buckets) {
        struct filter_index *made = count < UINT32_MAX ? make_index(buckets, buckets / 2 + 1) : NULL;
        if (made == NULL)
            return NULL;
        filter->kept = made;
    }
    return filter->kept;
}

static void
fill_index(struct filter_index *index, const struct filter_span *spans, size_t count, uint64_t lowest, uint32_t shift)
{
    for (size_t i = 0; i < count; ++i) {
        store(&index->ranges[i].begin, spans[i].begin);
        store(&index->ranges[i].end, spans[i].end);
    }
    store(&index->ranges[count].begin, UINT64_MAX);
    store(&index->ranges[count].end, UINT64_MAX);
    size_t at = 0;
    for (size_t bucket = 0; bucket <= index->bucket_capacity; ++bucket) {
        while (at < count && spans[at].end - lowest <= (uint64_t)bucket << shift)
            ++at;
        atomic_store_explicit(&index->first[bucket], (uint32_t)at, memory_order_release);
    }
}

bool
filter_set_index(struct filter *filter, const struct filter_span *spans, size_t count)
{
    struct filter_index *index = index_for(filter, count);
    if (index == NULL)
        return false;
    uint64_t lowest = atomic_load_explicit(&filter->lowest, memory_order_relaxed);
    uint64_t span = atomic_load_explicit(&filter->span, memory_order_relaxed);
    uint32_t shift = 0;
    while (span > 0 && (span - 1) >> shift >= index->bucket_capacity)
        ++shift;

    begin_change(filter);
    fill_index(index, spans, count, lowest, shift);
    atomic_store_explicit(&filter->shift, shift, memory_order_release);
    atomic_store_explicit(&filter->index, index, memory_order_release);
    end_change(filter);
    return true;
}

/* ---- kernels ---- */

static struct filter_kernels *
make_kernels(size_t slots)
{
    struct filter_kernels *kernels = malloc(sizeof(*kernels) + slots * sizeof(kernels->slots[0]));
    if (kernels == NULL)
        return NULL;
    kernels->mask = slots - 1;
    for (size_t i = 0; i < slots; ++i)
        atomic_init(&kernels->slots[i], &no_kernel);
    return kernels;
}

static void
put_kernel(struct filter_kernels *kernels, const struct filter_kernel *kernel)
{
    size_t at = filter_hash(kernel->function);
    for (;; ++at) {
        const struct filter_kernel *there =
            atomic_load_explicit(&kernels->slots[at & kernels->mask], memory_order_relaxed);
        if (there->function == NULL || there->function == kernel->function)
            break;
    }
    atomic_store_explicit(&kernels->slots[at & kernels->mask], kernel, memory_order_release);
}

/* The table, with room for one more kernel. */
static struct filter_kernels *
kernels_with_room(struct filter *filter)
{
    struct filter_kernels *kernels = atomic_load_explicit(&filter->kernels, memory_order_relaxed);
    size_t slots = kernels->mask + 1;
    if (2 * (filter->kernel_count + 1) <= slots)
        return kernels;
    struct filter_kernels *grown = make_kernels(2 * slots < SLOTS_AT_FIRST ? SLOTS_AT_FIRST : 2 * slots);
    if (grown == NULL)
        return NULL;
    for (size_t i = 0; i < slots; ++i) {
        const struct filter_kernel *kernel = atomic_load_explicit(&kernels->slots[i], memory_order_relaxed);
        if (kernel->function != NULL)
            put_kernel(grown, kernel);
    }
    atomic_store_explicit(&filter->kernels, grown, memory_order_release);
    return grown;
}

/* First words, filled up with repetitions, the end, and the other words. NULL: no memory, or they do not fit. */
static struct filter_kernel *
make_kernel(CUfunction function, const struct filter_word *words, size_t count)
{
    size_t first = 0, more = 0;
    for (size_t i = 0; i < count; ++i) {
        if (words[i].argument >= FILTER_LIST_END || words[i].offset > UINT16_MAX)
            return NULL;
        first += words[i].offset == 0;
        more += words[i].offset != 0;
    }
    size_t filled = (first + FILTER_WORDS_AT_ONCE - 1) / FILTER_WORDS_AT_ONCE * FILTER_WORDS_AT_ONCE;
    struct filter_kernel *kernel = calloc(1, sizeof(*kernel) + (filled + 1 + 2 * more) * sizeof(kernel->words[0]));
    if (kernel == NULL)
        return NULL;

    uint16_t *next = kernel->words, *next_more = kernel->words + filled + 1;
    for (size_t i = 0; i < count; ++i) {
        if (words[i].offset == 0) {
            *next++ = (uint16_t)words[i].argument;
        } else {
            *next_more++ = (uint16_t)words[i].argument;
            *next_more++ = (uint16_t)words[i].offset;
        }
    }
    for (; next < kernel->words + filled; ++next)
        *next = next[-1];
    *next = FILTER_LIST_END;
    kernel->function = function;
    kernel->key = more == 0 ? function : NULL;
    kernel->more_count = more;
    return kernel;
}

bool
filter_add_kernel(struct filter *filter, CUfunction function, const struct filter_word *words, size_t count)
{
    struct filter_kernels *kernels = kernels_with_room(filter);
    struct filter_kernel *kernel = kernels != NULL ? make_kernel(function, words, count) : NULL;
    if (kernel == NULL)
        return false;
    put_kernel(kernels, kernel);
    ++filter->kernel_count;
    return true;
}

void
filter_forget_kernels(struct filter *filter)
{
    struct filter_kernels *kernels = atomic_load_explicit(&filter->kernels, memory_order_relaxed);
    for (size_t i = 0; i <= kernels->mask && filter->kernel_count > 0; ++i)
        atomic_store_explicit(&kernels->slots[i], &no_kernel, memory_order_release);
    filter->kernel_count = 0;
}
