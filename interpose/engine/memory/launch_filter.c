/*
 * launch_filter.c - tells the hooks which launches need not reach the engine at all.
 *
 * Kernels are added when they are first looked at (functions.c), ranges when annotations change (tensors.c). The exact
 * index of the ranges is made anew only when a launch comes that needs it: programs that free and allocate all
 * gradients in each step change them many times between two launches. The kernels' part is guarded by the lock of
 * functions.c, the ranges' part by the engine's.
 *
 * Memory in which the host may have put addresses (host_accessible.c, pointer_arrays.c) counts as gradients do: its
 * owners enter their ranges here. Once gradients are reached unseen (escaped_pointers.c), no kernel is known to miss
 * any more, whatever its arguments.
 */
#include "interpose/engine/memory/filter_writer.h"
#include "interpose/engine/memory/memory.h"

enum { OWNERS_AT_MOST = 4 };

static struct bounded_ranges *owned[OWNERS_AT_MOST]; /* besides tensors; guarded by the engine's lock */
static size_t owner_count;

/* While every launch is to be reported the hooks see no kernel; guarded by the lock of functions.c. */
static const struct filter_kernel no_kernel = {.words = {FILTER_LIST_END}};
static struct filter_kernels no_kernels = {.mask = 0, .slot_count = 1, .slots = {&no_kernel}};
static struct filter_kernels *paused; /* those that they see again then, or NULL */

static void
enter_owner(struct bounded_ranges *bounded)
{
    struct ranges *ranges = &bounded->ranges;
    ranges_settle(ranges);
    atomic_store(&bounded->lowest, ranges->count > 0 ? ranges->sorted[0].begin : UINT64_MAX);
    atomic_store(&bounded->highest, ranges->count > 0 ? ranges->sorted[ranges->count - 1].end : 0);
    for (size_t i = 0; i < owner_count; ++i) {
        if (owned[i] == bounded)
            return;
    }
    ASSERT(owner_count < OWNERS_AT_MOST);
    owned[owner_count++] = bounded;
}

void
launch_filter_ranges_changed(struct bounded_ranges *bounded)
{
    if (bounded != NULL)
        enter_owner(bounded);
    uint64_t lowest = atomic_load(&memory_state.lowest), highest = atomic_load(&memory_state.highest);
    for (size_t i = 0; i < owner_count && highest != 0; ++i) {
        lowest = owned[i]->lowest < lowest ? owned[i]->lowest : lowest;
        highest = owned[i]->highest > highest ? owned[i]->highest : highest;
    }
    filter_set_bounds(engine_state.services->filter, lowest, highest);
    atomic_store(&memory_state.filter_is_old, true);
}

static int
compare_begins(const void *a, const void *b)
{
    uint64_t left = ((const struct filter_span *)a)->begin, right = ((const struct filter_span *)b)->begin;
    return left < right ? -1 : left > right;
}

/* Spans in order, and those that overlap made one; returns how many are left. */
static size_t
merge(struct filter_span *spans, size_t count)
{
    size_t kept = 0;
    qsort(spans, count, sizeof(*spans), compare_begins);
    for (size_t i = 0; i < count; ++i) {
        if (kept > 0 && spans[i].begin < spans[kept - 1].end)
            spans[kept - 1].end = spans[i].end > spans[kept - 1].end ? spans[i].end : spans[kept - 1].end;
        else
            spans[kept++] = spans[i];
    }
    return kept;
}

/* With lock held: where gradients are, and what else a kernel must not get unseen. malloc'ed, NULL: no memory. */
static struct filter_span *
list_spans(size_t *count_p) WITH_LOCK
{
    size_t count = 0, most = memory_state.ranges.count;
    for (size_t i = 0; i < owner_count; ++i)
        most += owned[i]->ranges.count;
    struct filter_span *spans = malloc((most + 1) * sizeof(*spans));
    if (spans == NULL)
        return NULL;
    for (size_t i = 0; i < memory_state.ranges.count; ++i) {
        const struct tensor *tensor = &memory_state.tensors[memory_state.ranges.sorted[i].id];
        if (tensor->role != TENSOR_PARAMETER || tensor->averaged)
            spans[count++] = (struct filter_span){tensor->address, tensor->address + tensor->bytes};
    }
    for (size_t i = 0; i < owner_count; ++i) {
        for (size_t k = 0; k < owned[i]->ranges.count; ++k)
            spans[count++] = (struct filter_span){owned[i]->ranges.sorted[k].begin, owned[i]->ranges.sorted[k].end};
    }
    *count_p = merge(spans, count);
    return spans;
}

void
launch_filter_refresh(void)
{
    size_t count;
    engine_lock();
    struct filter_span *spans = list_spans(&count);
    if (spans != NULL)
        (void)filter_set_index(engine_state.services->filter, spans, count);
    free(spans);
    atomic_store(&memory_state.filter_is_old,
                 false); /* without memory for it, every launch comes here, which is right too */
    engine_unlock();
}

void
launch_filter_pause(bool pause)
{
    struct filter *filter = engine_state.services->filter;
    if (pause == (paused != NULL))
        return;
    struct filter_kernels *seen = pause ? &no_kernels : paused;
    paused = pause ? atomic_load(&filter->kernels) : NULL;
    atomic_store(&filter->kernels, seen);
}

void
launch_filter_add_kernel(CUfunction function, const struct function_layout *layout)
{
    size_t count = 0;
    if (atomic_load(&memory_state.any_escaped) || (engine_state.off & OFF_LAUNCH_FILTER) != 0)
        return;
    for (unsigned i = 0; i < layout->param_count; ++i)
        count += layout->params[i].bytes / sizeof(uint64_t);
    struct filter_word *words = layout->known ? malloc((count + 1) * sizeof(*words)) : NULL;
    if (words == NULL)
        return;
    count = 0;
    for (unsigned i = 0; i < layout->param_count; ++i) {
        for (size_t at = 0; at + sizeof(uint64_t) <= layout->params[i].bytes; at += sizeof(uint64_t))
            words[count++] = (struct filter_word){i, at};
    }
    bool was_paused = paused != NULL;
    launch_filter_pause(false);
    (void)filter_add_kernel(engine_state.services->filter, function, words, count);
    launch_filter_pause(was_paused);
    free(words);
}

void
launch_filter_forget_kernels(void)
{
    bool was_paused = paused != NULL;
    launch_filter_pause(false);
    filter_forget_kernels(engine_state.services->filter);
    launch_filter_pause(was_paused);
}
