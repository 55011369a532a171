/*
 * filter_writer.c - see filter_writer.h.
 */
#include "interpose/engine/memory/filter_writer.h"

#include "base/assertion.h"

enum {
    HASHES_AT_FIRST = 2048,
    SLOTS_BEHIND = 64,
    SLOTS_FOR_EACH = 8, /* kernel: the first slot is nearly always the right one */
    RANGES_AT_LEAST = 64,
    BITS_FOR_EACH = 256,    /* range */
    BITS_AT_MOST = 1 << 22, /* 512 KiB */
    BITS_FOR_GRANULE = 32,  /* so that few of the others share one of these */
    SHIFT_AT_LEAST = 8,     /* what memory is aligned to */
};

static const struct filter_kernel no_kernel = {.words = {FILTER_LIST_END}};

/* What was published stays, linked from the filter, so that tools see that nothing is lost. */
struct kept {
    struct kept *next;
    uint64_t alignment;
};

/* Zeroed memory that is never freed; NULL when out of memory. */
static void *
allocate(void **list, size_t bytes)
{
    struct kept *kept = calloc(1, sizeof(*kept) + bytes);
    if (kept == NULL)
        return NULL;
    kept->next = *list;
    *list = kept;
    return kept + 1;
}

/* ---- ranges ---- */

static void
store(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
}

/* Around a change. */
static void
next_version(struct filter *filter)
{
    store(&filter->version, atomic_load_explicit(&filter->version, memory_order_relaxed) + 1);
}

void
filter_set_bounds(struct filter *filter, uint64_t lowest, uint64_t highest)
{
    next_version(filter);
    atomic_store_explicit(&filter->index, NULL, memory_order_release);
    store(&filter->lowest, lowest);
    store(&filter->span, lowest < highest ? highest - lowest : 0);
    next_version(filter);
}

/* `bits` is a power of two. */
static struct filter_index *
make_index(struct filter *filter, size_t bits, size_t ranges)
{
    struct filter_index *index = allocate(&filter->kept_of_ranges, sizeof(*index));
    if (index == NULL)
        return NULL;
    index->hash_shift = 64 - (uint32_t)__builtin_ctzll(bits);
    index->range_capacity = ranges;
    index->bits = allocate(&filter->kept_of_ranges, bits / 64 * sizeof(*index->bits));
    index->ranges = allocate(&filter->kept_of_ranges, ranges * sizeof(*index->ranges));
    return index->bits != NULL && index->ranges != NULL ? index : NULL;
}

static size_t
bits_of(const struct filter_index *index)
{
    return (size_t)1 << (64 - index->hash_shift);
}

/* One that holds `count` ranges: the last one again, if it is large enough. */
static struct filter_index *
index_for(struct filter *filter, size_t count)
{
    size_t ranges = RANGES_AT_LEAST;
    while (ranges < count)
        ranges *= 2;
    if (filter->last_index == NULL || filter->last_index->range_capacity < ranges) {
        size_t bits = ranges * BITS_FOR_EACH;
        struct filter_index *made = make_index(filter, bits < BITS_AT_MOST ? bits : BITS_AT_MOST, ranges);
        if (made == NULL)
            return NULL;
        filter->last_index = made;
    }
    return filter->last_index;
}

/* The size of a granule: as small as leaves nearly all bits unset. */
static uint32_t
choose_shift(const struct filter_index *index, const struct filter_span *spans, size_t count)
{
    uint64_t bytes = 0;
    uint32_t shift = SHIFT_AT_LEAST;
    for (size_t i = 0; i < count; ++i)
        bytes += spans[i].end - spans[i].begin;
    while ((bytes >> shift) + 2 * count > bits_of(index) / BITS_FOR_GRANULE && bytes >> shift > 0)
        ++shift;
    return shift;
}

static void
fill_index(struct filter_index *index, const struct filter_span *spans, size_t count, uint32_t shift)
{
    for (size_t i = 0; i < bits_of(index) / 64; ++i)
        store(&index->bits[i], 0);
    ASSERT(count <= index->range_capacity);
    for (size_t i = 0; i < count; ++i) {
        ASSERT(spans[i].begin < spans[i].end && (i == 0 || spans[i - 1].end <= spans[i].begin));
        store(&index->ranges[i].begin, spans[i].begin);
        store(&index->ranges[i].end, spans[i].end);
        for (uint64_t granule = spans[i].begin >> shift; granule <= (spans[i].end - 1) >> shift; ++granule) {
            uint64_t bit = filter_bit(index, granule);
            uint64_t word = atomic_load_explicit(&index->bits[bit / 64], memory_order_relaxed);
            store(&index->bits[bit / 64], word | UINT64_C(1) << bit % 64);
        }
    }
    store(&index->range_count, count);
}

bool
filter_set_index(struct filter *filter, const struct filter_span *spans, size_t count)
{
    struct filter_index *index = index_for(filter, count);
    if (index == NULL)
        return false;
    uint32_t shift = choose_shift(index, spans, count);

    next_version(filter);
    fill_index(index, spans, count, shift);
    atomic_store_explicit(&filter->shift, shift, memory_order_release);
    atomic_store_explicit(&filter->index, index, memory_order_release);
    next_version(filter);
    return true;
}

/* ---- kernels ---- */

/* `hashes` is a power of two. Behind the last is room for kernels that find their place taken, and for the end. */
static struct filter_kernels *
make_kernels(struct filter *filter, size_t hashes)
{
    size_t slots = hashes + SLOTS_BEHIND;
    struct filter_kernels *kernels =
        allocate(&filter->kept_of_kernels, sizeof(*kernels) + slots * sizeof(kernels->slots[0]));
    if (kernels == NULL)
        return NULL;
    kernels->mask = hashes - 1;
    kernels->slot_count = slots;
    for (size_t i = 0; i < slots; ++i)
        atomic_init(&kernels->slots[i], &no_kernel);
    return kernels;
}

/* False if there is no place but the last, which stays free. */
static bool
put_kernel(struct filter_kernels *kernels, const struct filter_kernel *kernel)
{
    size_t at = filter_hash(kernel->function) & kernels->mask;
    for (;; ++at) {
        const struct filter_kernel *there = atomic_load_explicit(&kernels->slots[at], memory_order_relaxed);
        if (there->function == NULL || there->function == kernel->function)
            break;
    }
    if (at + 1 == kernels->slot_count)
        return false;
    ASSERT(at + 1 < kernels->slot_count);
    atomic_store_explicit(&kernels->slots[at], kernel, memory_order_release);
    return true;
}

/* A table of twice the size with the same kernels; NULL when memory runs out. */
static struct filter_kernels *
grow_kernels(struct filter *filter, const struct filter_kernels *old)
{
    for (size_t hashes = 2 * (old->mask + 1);; hashes *= 2) {
        struct filter_kernels *grown = make_kernels(filter, hashes < HASHES_AT_FIRST ? HASHES_AT_FIRST : hashes);
        bool fits = grown != NULL;
        for (size_t i = 0; fits && i < old->slot_count; ++i) {
            const struct filter_kernel *kernel = atomic_load_explicit(&old->slots[i], memory_order_relaxed);
            fits = kernel->function == NULL || put_kernel(grown, kernel);
        }
        if (fits || grown == NULL)
            return grown;
    }
}

/* First words, filled up with repetitions, the end, and the other words. NULL: no memory, or they do not fit. */
static struct filter_kernel *
make_kernel(struct filter *filter, CUfunction function, const struct filter_word *words, size_t count)
{
    size_t first = 0, more = 0;
    for (size_t i = 0; i < count; ++i) {
        if (words[i].argument >= FILTER_LIST_END || words[i].offset > UINT16_MAX)
            return NULL;
        first += words[i].offset == 0;
        more += words[i].offset != 0;
    }
    size_t filled = (first + FILTER_WORDS_AT_ONCE - 1) / FILTER_WORDS_AT_ONCE * FILTER_WORDS_AT_ONCE;
    struct filter_kernel *kernel =
        allocate(&filter->kept_of_kernels, sizeof(*kernel) + (filled + 1 + 2 * more) * sizeof(kernel->words[0]));
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
    struct filter_kernels *kernels = atomic_load_explicit(&filter->kernels, memory_order_relaxed);
    const struct filter_kernel *kernel = make_kernel(filter, function, words, count);
    if (kernel == NULL)
        return false;
    while (SLOTS_FOR_EACH * (filter->kernel_count + 1) > kernels->mask + 1 || !put_kernel(kernels, kernel)) {
        kernels = grow_kernels(filter, kernels);
        if (kernels == NULL)
            return false;
        atomic_store_explicit(&filter->kernels, kernels, memory_order_release);
    }
    ++filter->kernel_count;
    return true;
}

void
filter_forget_kernels(struct filter *filter)
{
    struct filter_kernels *kernels = atomic_load_explicit(&filter->kernels, memory_order_relaxed);
    for (size_t i = 0; i < kernels->slot_count && filter->kernel_count > 0; ++i)
        atomic_store_explicit(&kernels->slots[i], &no_kernel, memory_order_release);
    filter->kernel_count = 0;
}
