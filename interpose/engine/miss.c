/*
 * miss.c - tells the hooks which launches need not come to the engine at all.
 *
 * Kernels are added when they are first looked at (functions.c), ranges when annotations change (tensors.c). The exact
 * index of the ranges is made anew only when a launch comes that needs it: programs that free and allocate all
 * gradients in each step change them many times between two launches. The kernels' part is guarded by the lock of
 * functions.c, the ranges' part by the engine's.
 */
#include "interpose/engine/filter_writer.h"
#include "interpose/engine/state.h"

#include <stdlib.h>

static _Atomic bool index_is_old;

void
miss_ranges_changed(void)
{
    filter_set_bounds(engine_state.services->filter, atomic_load(&engine_state.lowest),
                      atomic_load(&engine_state.highest));
    atomic_store(&index_is_old, true);
}

/* With lock held: where gradients are, in address order; malloc'ed. NULL when memory runs out. */
static struct filter_span *
list_gradients(size_t *count_p)
{
    struct filter_span *spans = malloc((engine_state.ranges.count + 1) * sizeof(*spans));
    size_t count = 0;
    for (size_t i = 0; spans != NULL && i < engine_state.ranges.count; ++i) {
        const struct tensor *tensor = &engine_state.tensors[engine_state.ranges.sorted[i].id];
        if (tensor->role == TENSOR_GRADIENT)
            spans[count++] = (struct filter_span){tensor->address, tensor->address + tensor->bytes};
    }
    *count_p = count;
    return spans;
}

void
miss_refresh(void)
{
    if (!atomic_load_explicit(&index_is_old, memory_order_relaxed))
        return;
    size_t count;
    pthread_mutex_lock(&engine_state.lock);
    struct filter_span *spans = list_gradients(&count);
    if (spans != NULL)
        (void)filter_set_index(engine_state.services->filter, spans, count);
    free(spans);
    atomic_store(&index_is_old, false); /* without memory for it, every launch comes here, which is right too */
    pthread_mutex_unlock(&engine_state.lock);
}

void
miss_add_kernel(CUfunction function, const struct function_layout *layout)
{
    size_t count = 0;
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
    (void)filter_add_kernel(engine_state.services->filter, function, words, count);
    free(words);
}

void
miss_forget_kernels(void)
{
    filter_forget_kernels(engine_state.services->filter);
}
