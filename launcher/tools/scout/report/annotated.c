/*
 * annotated.c - see annotated.h.
 *
 * Memory that is made again in each step is annotated in each: annotations and tensors are compared by memory, not by
 * allocation, and bytes that are annotated twice count once.
 */
#include "launcher/tools/scout/report/annotated.h"

#include "launcher/common/xcalloc.h"
#include "launcher/tools/scout/analysis/graph.h"

#include <inttypes.h>
#include <stdlib.h>

static const uint32_t says[] = {[ROLE_PARAMETER] = SCOUT_SAYS_PARAMETER, [ROLE_GRADIENT] = SCOUT_SAYS_GRADIENT};

struct comparison {
    FILE *out;
    const struct scout_log *log;
    const struct scout_finding *finding;
    uint32_t *memory_of;
    uint32_t wrong; /* lines printed */
};

static int
by_begin(const void *a, const void *b)
{
    const struct scout_range *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* How many bytes of [lo, hi) the ranges have together. */
static uint64_t
covered(struct scout_range *ranges, uint32_t count, uint64_t lo, uint64_t hi)
{
    uint64_t bytes = 0;
    qsort(ranges, count, sizeof(*ranges), by_begin);
    for (uint32_t i = 0; i < count; ++i) {
        uint64_t begin = ranges[i].lo > lo ? ranges[i].lo : lo, end = ranges[i].hi < hi ? ranges[i].hi : hi;
        if (begin >= end)
            continue;
        bytes += end - begin;
        lo = end;
    }
    return bytes;
}

static bool
is_annotated(const struct scout_tensor *tensor)
{
    return tensor->role == ROLE_PARAMETER || tensor->role == ROLE_GRADIENT;
}

static bool
is_about(const struct comparison *it, const struct scout_annotation *annotation, const struct scout_tensor *tensor)
{
    return is_annotated(tensor) && annotation->says == says[tensor->role] && annotation->alloc != SCOUT_NONE &&
           it->memory_of[annotation->alloc] == it->memory_of[tensor->alloc];
}

static void
compare_tensor(struct comparison *it, const struct scout_tensor *tensor, struct scout_range *ranges)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < it->log->annotation_count; ++i) {
        const struct scout_annotation *annotation = &it->log->annotations[i];
        if (is_about(it, annotation, tensor))
            ranges[count++] = (struct scout_range){annotation->offset, annotation->offset + annotation->bytes};
    }
    uint64_t bytes = tensor->hi - tensor->lo, done = covered(ranges, count, tensor->lo, tensor->hi);
    if (done == bytes)
        return;
    ++it->wrong;
    if (done > 0)
        fprintf(it->out, "missing: %" PRIu64 " of %" PRIu64 " bytes of ", done, bytes);
    else
        fputs("missing: ", it->out);
    fprintf(it->out, "%s a%" PRIu32 "[%" PRIu64 ":%" PRIu64 "] %s annotated\n", scout_role_name(tensor->role),
            tensor->alloc, tensor->lo, tensor->hi, done > 0 ? "are" : "is not");
}

static void
compare_annotation(struct comparison *it, const struct scout_annotation *annotation, struct scout_range *ranges)
{
    uint32_t count = 0;
    if (annotation->says != SCOUT_SAYS_PARAMETER && annotation->says != SCOUT_SAYS_GRADIENT)
        return;
    for (uint32_t i = 0; i < it->finding->tensor_count; ++i) {
        const struct scout_tensor *tensor = &it->finding->tensors[i];
        if (is_about(it, annotation, tensor))
            ranges[count++] = (struct scout_range){tensor->lo, tensor->hi};
    }
    uint64_t done = covered(ranges, count, annotation->offset, annotation->offset + annotation->bytes);
    const char *role = scout_role_name(annotation->says == SCOUT_SAYS_GRADIENT ? ROLE_GRADIENT : ROLE_PARAMETER);
    if (done == annotation->bytes)
        return;
    ++it->wrong;
    if (done > 0)
        fprintf(it->out, "superfluous: %" PRIu64 " of %" PRIu64 " bytes of %s, annotated at %s:%u, are no %s\n",
                annotation->bytes - done, annotation->bytes, annotation->text, annotation->file, annotation->line,
                role);
    else
        fprintf(it->out, "superfluous: %s, annotated at %s:%u, is no %s\n", annotation->text, annotation->file,
                annotation->line, role);
}

/* Each group has a step between the last gradient and its first use. */
static void
compare_steps(struct comparison *it)
{
    const struct scout_finding *finding = it->finding;
    char last[SCOUT_NAME_BYTES], first[SCOUT_NAME_BYTES];
    for (uint32_t g = 0; g < finding->group_count; ++g) {
        const struct scout_group *group = &finding->groups[g];
        bool found = false;
        for (uint32_t i = 0; i < it->log->annotation_count && !found; ++i) {
            const struct scout_annotation *annotation = &it->log->annotations[i];
            found = annotation->says == SCOUT_SAYS_STEP && annotation->at > group->complete &&
                    annotation->at <= group->before;
        }
        if (found)
            continue;
        ++it->wrong;
        bool is_border = group->before >= finding->first + finding->period;
        fprintf(it->out, "missing: a step of group %" PRIu32 ", behind %s and before %s\n", g,
                scout_op_name(it->log, &it->log->ops[group->complete], last),
                is_border ? "the next step" : scout_op_name(it->log, &it->log->ops[group->before], first));
    }
}

void
annotated_print(FILE *out, const struct scout_log *log, const struct scout_finding *finding)
{
    struct comparison it = {.out = out, .log = log, .finding = finding};
    struct scout_range *ranges = xcalloc(log->annotation_count + finding->tensor_count + 1, sizeof(*ranges));
    (void)graph_name_memories(log, &it.memory_of);
    for (uint32_t i = 0; i < finding->tensor_count; ++i)
        if (is_annotated(&finding->tensors[i]))
            compare_tensor(&it, &finding->tensors[i], ranges);
    for (uint32_t i = 0; i < log->annotation_count; ++i)
        compare_annotation(&it, &log->annotations[i], ranges);
    compare_steps(&it);
    if (it.wrong == 0)
        fputs("annotations: each parameter and each gradient has one, and there is no other\n", out);
    free(it.memory_of);
    free(ranges);
}
