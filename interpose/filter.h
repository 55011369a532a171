/*
 * filter.h - what the engine publishes so that a hook can tell, without calling it, that a launch touches nothing.
 *
 * One struct filter, in the shim; interpose/engine/memory/filter_writer.c writes it, the hooks of launches read it, in
 * any thread and without a lock. A reader may say "may hit" about a launch that misses (the engine then looks exactly),
 * never the other way round. An engine that wants to see every launch publishes no kernel.
 *
 * Kernels: a hash table of immutable entries, one word each, so that a reader sees an entry or not. Tables and entries
 * are never freed: a reader may hold them.
 *
 * Ranges: a sequence lock. The writer makes `version` odd, changes, and makes it even again; a reader that saw it
 * change may have read a mixture and says "may hit". Every load acquires and every store releases, which orders them
 * without a fence. Memory of an index is never freed, and its capacities are constant: whatever mixture a reader sees,
 * it stays within.
 */
#ifndef DDPRUN_INTERPOSE_FILTER_H
#define DDPRUN_INTERPOSE_FILTER_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Filled up to a multiple of UNROLL with repetitions: what a loop looks at in one go. The other two say where a search
 * begins and what ends a list; interpose/shim/layout.h has them for assembly.
 */
enum { FILTER_WORDS_AT_ONCE = 4, FILTER_LIST_END = 0xFFFF, FILTER_HASH_FACTOR = 0x61C88647 };

/* A kernel all of whose arguments are known. */
struct filter_kernel {
    CUfunction key;      /* `function` if more_count is 0, else NULL: for the quick look */
    CUfunction function; /* NULL: the end of a search */
    uint64_t more_count; /* further words of structs */
    uint16_t words[];    /* arguments that hold a pointer in their first word, FILTER_LIST_END, and more_count pairs:
                            argument, offset in bytes */
};

/* A search begins at a hash and goes up to the first free slot, without a turn at the end: the last slot is free. */
struct filter_kernels {
    uint64_t mask; /* of a hash; a power of two, less 1 */
    uint64_t slot_count;
    _Atomic(const struct filter_kernel *) slots[];
};

struct filter_range {
    _Atomic uint64_t begin, end;
};

/*
 * Where the ranges of gradients are. Memory is seen in granules of 2^shift bytes, and a granule has a bit, which it may
 * share with others, by a hash: set if any byte of it is in a range. So the table depends on how much memory is
 * tracked, and not on how far apart it lies.
 */
struct filter_index {
    uint32_t hash_shift;         /* constant: 64 less the number of bits in a bit's number */
    size_t range_capacity;       /* constant */
    _Atomic uint64_t *bits;      /* [2^(64 - hash_shift) / 64] */
    struct filter_range *ranges; /* [range_count]: sorted, without overlap */
    _Atomic uint64_t range_count;
};

struct filter {
    _Atomic(struct filter_kernels *) kernels;
    _Atomic uint64_t version;             /* odd while what follows changes */
    _Atomic uint64_t lowest, span;        /* all gradients are in [lowest, lowest + span); span 0: there are none */
    _Atomic uint32_t shift;               /* a granule is 2^shift bytes */
    _Atomic(struct filter_index *) index; /* NULL: not known, every launch into [lowest, lowest + span) may hit */

    /* ---- the writer's own ---- */
    struct filter_index *last_index; /* for the next */
    size_t kernel_count;
    void *kept_of_kernels, *kept_of_ranges; /* all memory that was ever published */
};

static inline size_t
filter_hash(CUfunction function)
{
    return (size_t)((uint64_t)(uintptr_t)function * FILTER_HASH_FACTOR >> 32);
}

static inline uint64_t
filter_load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_acquire);
}

/* Whether `address` is in one of the ranges. */
static __attribute__((noinline, unused)) bool
filter_search(const struct filter_index *index, uint64_t address)
{
    uint64_t at = 0, end = filter_load(&index->range_count);
    if (end > index->range_capacity)
        return true; /* a mixture of two versions */
    while (at < end) {
        uint64_t middle = at + (end - at) / 2;
        if (filter_load(&index->ranges[middle].end) <= address)
            at = middle + 1;
        else
            end = middle;
    }
    return at < filter_load(&index->range_count) && at < index->range_capacity &&
           filter_load(&index->ranges[at].begin) <= address;
}

/* The number of the granule's bit. */
static inline uint64_t
filter_bit(const struct filter_index *index, uint64_t granule)
{
    return granule * UINT64_C(0x9E3779B97F4A7C15) >> index->hash_shift;
}

/* Whether `address`, which is within the bounds, may be in a gradient. */
static inline bool
filter_tracks(const struct filter_index *index, uint64_t address, uint32_t shift)
{
    uint64_t bit = filter_bit(index, address >> shift);
    return (filter_load(&index->bits[bit / 64]) >> bit % 64 & 1) != 0 && filter_search(index, address);
}

static inline uint64_t
filter_word(void *const *params, unsigned argument, unsigned offset)
{
    uint64_t word;
    __builtin_memcpy(&word, (const char *)params[argument] + offset, sizeof(word));
    return word;
}

/* The table's entry of a kernel, or the free slot that ends the search: then its `function` is NULL. */
static inline const struct filter_kernel *
filter_find(const struct filter_kernels *table, CUfunction function)
{
    const _Atomic(const struct filter_kernel *) *slot = &table->slots[filter_hash(function) & table->mask];
    for (;; ++slot) {
        const struct filter_kernel *kernel = atomic_load_explicit(slot, memory_order_acquire);
        if (kernel->function == function || kernel->function == NULL)
            return kernel;
    }
}

/* Whether a launch of `function` with these arguments (cuLaunchKernel's kernelParams) certainly touches no gradient. */
static inline bool
filter_launch_misses(const struct filter *filter, CUfunction function, void *const *params)
{
    if (params == NULL || function == NULL)
        return false;
    const struct filter_kernel *kernel =
        filter_find(atomic_load_explicit(&filter->kernels, memory_order_acquire), function);
    if (kernel->function != function)
        return false;

    uint64_t version = filter_load(&filter->version) & ~UINT64_C(1);
    const struct filter_index *index = atomic_load_explicit(&filter->index, memory_order_acquire);
    uint64_t lowest = filter_load(&filter->lowest), span = filter_load(&filter->span);
    uint32_t shift = atomic_load_explicit(&filter->shift, memory_order_acquire);
    const uint16_t *word = kernel->words;
    for (; *word != FILTER_LIST_END; ++word) {
        uint64_t address = filter_word(params, *word, 0);
        if (address - lowest < span && (index == NULL || filter_tracks(index, address, shift)))
            return false;
    }
    ++word;
    for (uint64_t i = 0; i < kernel->more_count; ++i, word += 2) {
        uint64_t address = filter_word(params, word[0], word[1]);
        if (address - lowest < span && (index == NULL || filter_tracks(index, address, shift)))
            return false;
    }
    return filter_load(&filter->version) == version;
}

#endif
