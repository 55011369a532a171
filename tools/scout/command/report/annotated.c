/*
 * annotated.c - see lines.h.
 *
 * Memory that is made again in each step is annotated in each: annotations and tensors are compared by memory, not by
 * allocation, and bytes that are annotated twice count once.
 */
#include "tools/scout/command/report/lines.h"

#include "base/printable.h"
#include "tools/scout/command/analysis/rules.h"

static const uint32_t says[] = {[ROLE_PARAMETER] = SCOUT_SAYS_PARAMETER, [ROLE_GRADIENT] = SCOUT_SAYS_GRADIENT};

struct comparison {
    FILE *out;
    const struct scout_log *log;
    const struct scout_finding *finding;
    struct sites *sites;
    uint32_t *memory_of;
    uint32_t wrong; /* lines printed */
};

COMPARES(by_begin, struct scout_range, COMPARE(a, b, lo, 0))

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

/* "2 of 1280 elements (float32), from element 8 on, of the memory allocated at train.cu:31". */
static void
print_elements(const struct comparison *it, const struct scout_tensor *tensor, uint64_t lacking)
{
    char text[256];
    uint64_t bytes = tensor->hi - tensor->lo, known = scout_type_bytes(tensor->type), each = known > 0 ? known : 1;
    const char *place = sites_text(it->sites, it->log->allocs[tensor->alloc].site, text, sizeof(text));
    if (lacking < bytes)
        fprintf(it->out, "%" PRIu64 " of ", lacking / each);
    fprintf(it->out, "%" PRIu64 " %s%s%s", bytes / each, known > 0 ? "elements (" : "bytes",
            known > 0 ? scout_type_name(tensor->type) : "", known > 0 ? ")" : "");
    if (tensor->lo > 0)
        fprintf(it->out, ", from %s %" PRIu64 " on,", known > 0 ? "element" : "byte", tensor->lo / each);
    if (strchr(place, ':') != NULL)
        fprintf(it->out, " of the memory allocated at %s\n", place);
    else
        fprintf(it->out, " of the program's allocation a%" PRIu32 "\n", tensor->alloc);
}

/* `begun`: what no annotation has a byte of is left out. */
static void
compare_annotated(struct comparison *it, const struct scout_tensor *tensor, bool begun, struct scout_range *ranges)
{
    uint32_t count = 0;
    FOR_EACH(annotation, it->log->annotations, it->log->annotation_count) {
        if (is_about(it, annotation, tensor))
            ranges[count++] = (struct scout_range){annotation->offset, annotation->offset + annotation->bytes};
    }
    uint64_t bytes = tensor->hi - tensor->lo, done = covered(ranges, count, tensor->lo, tensor->hi);
    if (done == bytes || (done == 0 && begun))
        return;
    ++it->wrong;
    fprintf(it->out, "missing: %s for ", tensor->role == ROLE_PARAMETER ? "DDP_PARAMETER" : "DDP_GRADIENT");
    print_elements(it, tensor, bytes - done);
}

/* Prints a line if the annotation names bytes that are no gradient, or parameter, of the finding. `ranges`: room for
 * one of each tensor. */
static void
compare_annotation(struct comparison *it, const struct scout_annotation *annotation, struct scout_range *ranges)
{
    uint32_t count = 0;
    if (annotation->says != SCOUT_SAYS_PARAMETER && annotation->says != SCOUT_SAYS_GRADIENT)
        return;
    FOR_EACH(tensor, it->finding->tensors, it->finding->tensor_count) {
        if (is_about(it, annotation, tensor))
            ranges[count++] = (struct scout_range){tensor->lo, tensor->hi};
    }
    uint64_t done = covered(ranges, count, annotation->offset, annotation->offset + annotation->bytes);
    if (done == annotation->bytes)
        return;
    ++it->wrong;
    bool is_gradient = annotation->says == SCOUT_SAYS_GRADIENT;
    fprintf(it->out, "superfluous: %s of `%s` (%s:%u): %" PRIu64 " of its %" PRIu64 " bytes are not a %s\n",
            is_gradient ? "DDP_GRADIENT" : "DDP_PARAMETER", annotation->text, annotation->file, annotation->line,
            annotation->bytes - done, annotation->bytes, is_gradient ? "gradient" : "parameter");
}

/* Prints an operation of the log by its name, and its place in the source where that is known. */
static void
print_operation(const struct comparison *it, uint32_t op)
{
    struct site_place place;
    char name[SCOUT_NAME_BYTES];
    fputs(scout_op_name(it->log, &it->log->ops[op], name), it->out);
    if (sites_find(it->sites, it->log->ops[op].site, &place) && place.file[0] != '\0')
        fprintf(it->out, " (%s)", place.text);
}

/* `other`: a step that stands elsewhere, or NULL. */
static void
print_group(struct comparison *it, uint32_t number, const struct scout_annotation *other)
{
    const struct scout_finding *finding = it->finding;
    const struct scout_group *group = &finding->groups[number];
    ++it->wrong;
    if (other != NULL)
        fprintf(it->out, "missing: DDP_STEP (%s:%u) stands elsewhere: it belongs after ", file_name_of(other->file),
                other->line);
    else
        fputs("missing: a DDP_STEP, after ", it->out);
    print_operation(it, group->complete);
    fputs(" and before ", it->out);
    if (group->before >= finding->first + finding->period)
        fputs("the next step", it->out);
    else
        print_operation(it, group->before);
    fputc('\n', it->out);
}

/* The first step after an operation; NULL: there is none. */
static const struct scout_annotation *
step_behind(const struct scout_log *log, uint32_t op)
{
    const struct scout_annotation *first = NULL;
    FOR_EACH(annotation, log->annotations, log->annotation_count) {
        if (annotation->says == SCOUT_SAYS_STEP && annotation->operations_before > op &&
            (first == NULL || annotation->operations_before < first->operations_before))
            first = annotation;
    }
    return first;
}

void
annotated_print(FILE *out, const struct scout_log *log, const struct scout_finding *finding, struct sites *sites)
{
    struct comparison it = {.out = out, .log = log, .finding = finding, .sites = sites};
    OWNED struct scout_range *ranges = xcalloc(log->annotation_count + finding->tensor_count + 1, sizeof(*ranges));
    (void)graph_name_memories(log, &it.memory_of);
    for (uint32_t i = 0; i < finding->tensor_count; ++i)
        if (is_annotated(&finding->tensors[i]))
            compare_annotated(&it, &finding->tensors[i], false, ranges);
    for (uint32_t i = 0; i < log->annotation_count; ++i)
        compare_annotation(&it, &log->annotations[i], ranges);
    for (uint32_t g = 0; g < finding->group_count; ++g) {
        const struct scout_group *group =
            &finding->groups[g]; /* a step is between the last gradient and its first use */
        const struct scout_annotation *step = step_behind(log, group->complete);
        if (step == NULL || step->operations_before > group->before)
            print_group(&it, g, NULL);
    }
    if (it.wrong == 0)
        fputs("annotations: each parameter and each gradient has one, and there is no other\n", out);
    free(it.memory_of);
}

/* ---- of a program whose steps are equal on all ranks ---- */

static bool
shares_bytes(const struct scout_ranges *ranges, const struct scout_tensor *tensor)
{
    return graph_ranges_meet(ranges, tensor->lo, tensor->hi);
}

/* Whether the operation changes what it finds there, in these steps or in others. What is overwritten may be the
 * gradient itself, in another type. */
static bool
changes(const struct comparison *it, const struct scout_effect *effect, const struct scout_tensor *tensor)
{
    uint32_t memory = it->memory_of[tensor->alloc];
    bool changed = false, killed = false;
    FOR_EACH(segment, effect->segments, effect->segment_count) {
        if (it->memory_of[segment->alloc] != memory)
            continue;
        changed = changed || shares_bytes(&segment->modified, tensor);
        killed = killed || shares_bytes(&segment->killed, tensor);
    }
    return !killed && (changed || ANY(theirs, effect->dependences, effect->dependence_count,
                                      it->memory_of[theirs->to] == memory && shares_bytes(&theirs->changed, tensor)));
}

/* Whether what has changed a gradient may stand on either side of a step. The ranks are equal to one, so what has taken
 * effect is linear in gradients, a scaling or a difference from their mean for instance. What has left the gradient as
 * it was may be a bound that no element has reached; so may a factor in memory smaller than it, such as a norm, that
 * was 1. */
static bool
commutes(const struct comparison *it, const struct scout_effect *effect, const struct scout_tensor *tensor)
{
    FOR_EACH(dependence, effect->dependences, effect->dependence_count) {
        const struct scout_segment *from = &effect->segments[dependence->from];
        if (it->memory_of[dependence->to] == it->memory_of[tensor->alloc] &&
            shares_bytes(&dependence->changed, tensor) && 2 * (from->hi - from->lo) < tensor->hi - tensor->lo)
            return false;
    }
    return ANY(written, effect->written, effect->written_count, /* other bytes than before */
               it->memory_of[written->alloc] == it->memory_of[tensor->alloc] && shares_bytes(&written->ranges, tensor));
}

/* Whether a change of the tensor by the operation counts: of a gradient only after its last write, where it is
 * complete. */
static bool
counts(const struct comparison *it, uint32_t op, const struct scout_tensor *tensor)
{
    if (tensor->role != ROLE_GRADIENT)
        return is_annotated(tensor); /* what state has of its own gradients shows in parameters, which are equal */
    return tensor->group != GROUP_NONE && op > it->finding->groups[tensor->group].complete &&
           !commutes(it, it->log->ops[op].effect, tensor);
}

/* Whether an operation from `begin` on, before `op`, leaves something in memory that `op` gets. */
static bool
gets_result(const struct comparison *it, uint32_t begin, uint32_t op)
{
    const struct scout_op *reader = &it->log->ops[op];
    for (uint32_t i = begin; i < op; ++i) {
        const struct scout_effect *effect = it->log->ops[i].effect;
        if (effect != NULL &&
            ANY(segment, effect->segments, effect->segment_count,
                segment->killed.count + segment->modified.count > 0 &&
                    ANY(got, reader->arguments, reader->argument_count, got->alloc == segment->alloc)))
            return true;
    }
    return false;
}

/* Whether it gets the tensor beside a result of `begin` or later, and writes nothing in these steps: in others it does,
 * such as a clipping whose bound no norm has reached. */
static bool
may_change(const struct comparison *it, uint32_t begin, uint32_t op, const struct scout_tensor *tensor)
{
    const struct scout_op *its = &it->log->ops[op];
    bool gets = ANY_NUMBER(i, 0, its->argument_count,
                           its->arguments[i].alloc != SCOUT_NONE &&
                               it->memory_of[its->arguments[i].alloc] == it->memory_of[tensor->alloc] &&
                               its->arguments[i].offset >= tensor->lo && its->arguments[i].offset < tensor->hi);
    return gets && scout_writes_nothing(its->effect) && gets_result(it, begin, op);
}

/* Whether the gradients' last write finds averaged parameters: between the last operation before that write which
 * changes the group's parameters and the first use of its gradients (group->before) a step stands. */
static bool
has_step_in_front(const struct comparison *it, uint32_t number)
{
    const struct scout_group *group = &it->finding->groups[number];
    uint32_t last = 0;
    for (uint32_t op = 0; op < group->complete && op < it->log->op_count; ++op) {
        const struct scout_effect *effect = it->log->ops[op].effect;
        for (uint32_t i = 0; effect != NULL && i < it->finding->tensor_count; ++i) {
            const struct scout_tensor *tensor = &it->finding->tensors[i];
            bool is_its = tensor->role == ROLE_PARAMETER && tensor->group == number;
            last = is_its && changes(it, effect, tensor) ? op : last;
        }
    }
    const struct scout_annotation *step = step_behind(it->log, last);
    return last > 0 && step != NULL && step->operations_before <= group->before;
}

/* Prints a group whose step comes after the first use of its gradients (group->before), if gradients or parameters
 * change in between. Else the step is not late: a norm that is only printed is each rank's own. */
static void
compare_late_group(struct comparison *it, uint32_t number)
{
    const struct scout_group *group = &it->finding->groups[number];
    const struct scout_annotation *step = step_behind(it->log, group->complete);
    bool late = false;
    if (step == NULL || step->operations_before <= group->before || has_step_in_front(it, number))
        return;
    for (uint32_t op = group->before; op < step->operations_before && op < it->log->op_count; ++op) {
        const struct scout_effect *effect = it->log->ops[op].effect;
        for (uint32_t i = 0; effect != NULL && i < it->finding->tensor_count; ++i) {
            const struct scout_tensor *tensor = &it->finding->tensors[i];
            if (counts(it, op, tensor))
                late = late || changes(it, effect, tensor) || may_change(it, group->before, op, tensor);
        }
    }
    if (late)
        print_group(it, number, step);
}

/* Elements of all annotations of that kind. */
static uint64_t
count_elements(const struct scout_log *log, uint32_t kind)
{
    uint64_t elements = 0;
    FOR_EACH(annotation, log->annotations, log->annotation_count) {
        uint32_t bytes = scout_type_bytes(annotation->type);
        if (annotation->says == kind)
            elements += annotation->bytes / (bytes > 0 ? bytes : 1);
    }
    return elements;
}

void
annotated_print_open(FILE *out, const struct scout_log *log, const struct scout_finding *finding, struct sites *sites,
                     bool by_gradients)
{
    struct comparison it = {.out = out, .log = log, .finding = finding, .sites = sites};
    OWNED struct scout_range *ranges = xcalloc(log->annotation_count + finding->tensor_count + 1, sizeof(*ranges));
    bool lacks = count_elements(log, SCOUT_SAYS_PARAMETER) < count_elements(log, SCOUT_SAYS_GRADIENT);
    (void)graph_name_memories(log, &it.memory_of);
    for (uint32_t i = 0; i < finding->tensor_count; ++i)
        if (finding->tensors[i].role == ROLE_PARAMETER)
            compare_annotated(&it, &finding->tensors[i], !lacks || !by_gradients, ranges);
    for (uint32_t g = 0; by_gradients && g < finding->group_count; ++g)
        compare_late_group(&it, g);
    free(it.memory_of);
}
