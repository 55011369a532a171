/*
 * show.c - see scout.h.
 */
#include "tools/scout/command/scout.h"

static void
show_place(FILE *out, const struct scout_place *place)
{
    if (place->alloc == SCOUT_NONE)
        fprintf(out, " host");
    else
        fprintf(out, " %u+%llu", place->alloc, (unsigned long long)place->offset);
}

/* The segment that an argument begins. */
static const struct scout_segment *
segment_of(const struct scout_effect *effect, const struct scout_argument *argument)
{
    for (uint32_t i = 0; i < effect->segment_count; ++i) {
        const struct scout_segment *segment = &effect->segments[i];
        if (segment->alloc == argument->alloc && segment->lo <= argument->offset && argument->offset < segment->hi)
            return segment;
    }
    return NULL;
}

static uint64_t
bytes_of_ranges(const struct scout_ranges *ranges)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < ranges->count; ++i)
        bytes += ranges->items[i].hi - ranges->items[i].lo;
    return bytes;
}

/* r: something depends on it; k: it is overwritten; m: its result depends on it; ?: not known. */
static void
show_argument(FILE *out, const struct scout_effect *effect, const struct scout_argument *argument)
{
    const struct scout_segment *segment = segment_of(effect, argument);
    fprintf(out, " %u+%llu", argument->alloc, (unsigned long long)argument->offset);
    if (segment == NULL)
        return;
    uint32_t number = (uint32_t)(segment - effect->segments);
    bool is_read = false;
    for (uint32_t i = 0; i < effect->dependence_count; ++i)
        is_read = is_read || effect->dependences[i].from == number;
    fprintf(out, ":%s%s%s%s", segment->tested ? "" : "?", is_read ? "r" : "",
            bytes_of_ranges(&segment->killed) > 0 ? "k" : "", bytes_of_ranges(&segment->modified) > 0 ? "m" : "");
}

static void
show_operation(FILE *out, const struct scout_log *log, const struct scout_op *op, uint32_t number)
{
    fprintf(out, "%6u  %-40.40s", number, scout_log_name(log, op->name));
    if (op->kind == SCOUT_COPY || op->kind == SCOUT_FILL) {
        show_place(out, &op->to);
        if (op->kind == SCOUT_COPY) {
            fputs(" <-", out);
            show_place(out, &op->from);
        }
        fprintf(out, " %llu bytes", (unsigned long long)op->bytes * op->rows);
    }
    for (uint32_t i = 0; i < op->argument_count; ++i)
        show_argument(out, op->effect, &op->arguments[i]);
    for (uint32_t i = 0; i < op->effect->elementwise_count; ++i) {
        const struct scout_elementwise *map = &op->effect->elementwise[i];
        fprintf(out, " [%u+%llu=>%u+%llu]", map->from, (unsigned long long)map->from_base, map->to,
                (unsigned long long)map->to_base);
    }
    if (op->effect->hidden_read)
        fputs(" reads hidden memory", out);
    if (op->effect->why != SCOUT_NONE)
        fprintf(out, " (%s)", scout_log_name(log, op->effect->why));
    fputc('\n', out);
}

void
scout_show(FILE *out, const struct scout_log *log, uint64_t period)
{
    uint32_t deep = 0;
    for (uint32_t i = 0; i < log->op_count; ++i)
        deep += log->ops[i].effect != NULL;
    fprintf(out, "period: %llu operations; %u of %u were repeated with other inputs\n", (unsigned long long)period,
            deep, log->op_count);
    fprintf(out, "the last period, with arguments as allocation+offset:\n");
    for (uint64_t i = log->op_count > period ? log->op_count - period : 0; i < log->op_count; ++i) {
        if (log->ops[i].effect != NULL)
            show_operation(out, log, &log->ops[i], (uint32_t)i);
    }
}
