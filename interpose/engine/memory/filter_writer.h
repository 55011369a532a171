/*
 * filter_writer.h - writes struct filter (interpose/filter.h), which the hooks of launches read.
 *
 * One writer of kernels and one of ranges at a time. Nothing that was published is ever freed: a reader may hold it.
 * Tables double when they grow, so what is left behind is at most what is in use.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_MEMORY_FILTER_WRITER_H
#define DDPRUN_INTERPOSE_ENGINE_MEMORY_FILTER_WRITER_H

#include "interpose/filter.h"

/* One word of a kernel's arguments that may hold a pointer: argument, and offset in it in bytes. */
struct filter_word {
    unsigned argument;
    size_t offset;
};

/* [begin, end) */
struct filter_span {
    uint64_t begin, end;
};

/* From now on all that is tracked lies in [lowest, highest); lowest >= highest: nothing does. Forgets the index. */
void filter_set_bounds(struct filter *filter, uint64_t lowest, uint64_t highest);

/* What exactly is tracked within these bounds: spans[count], sorted and disjoint. False when memory runs out: then
 * every launch into the bounds goes to the engine. */
bool filter_set_index(struct filter *filter, const struct filter_span *spans, size_t count);

/* All words of a kernel's arguments that may be pointers. False when memory runs out or the kernel has too many of
 * them: then its launches go to the engine. */
bool filter_add_kernel(struct filter *filter, CUfunction function, const struct filter_word *words, size_t count);

/* Forgets all kernels: their handles may be used again for others. */
void filter_forget_kernels(struct filter *filter);

#endif
