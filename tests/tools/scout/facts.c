/*
 * facts.c LOG - holds a recording of facts.cu against what its kernels are known to do.
 *
 * Property: of each kernel the recording says which arguments it reads, overwrites, modifies or leaves alone, what is
 * elementwise, and what could not be repeated.
 */
#include "tools/common/each.h"
#include "tools/scout/format/log.h"

#include <stdio.h>

/* Slots of arguments: r: something outside depends on it; k: overwritten; m: modified; -: none of these.
 * from>to: elementwise. */
static const struct fact {
    const char *kernel, *expected;
} facts[] = {
    {"fact_axpy", "0:m 1:r 0>0 1>0"},
    {"fact_scale", "0:k 1:r 1>0"},
    {"fact_sum", "0:k 1:r"},
    {"fact_relu", "0:m 0>0"},
    {"fact_gather", "0:k 1:r 2:r"},
    {"fact_ignores", "0:k 1:-"},
    {"fact_half", "0:k 1:r 1>0"},
    {"fact_over_zeros", "0:k 1:r 1>0"},
    {"fact_through_table", "0:- 1:r 65535:k 1>65535"},
    {"fact_struct", "0:r 0:k 0>0"},
    {"fact_variable", "0:r 2:m 0>2 2>2"},
    {"fact_hidden_read", "0:k hidden"},
    {"fact_hidden_write", "it writes memory that is not among its arguments"},
    {"fact_host", "it writes memory of the host"},
    {"fact_prints", "0:m"},
    {"fact_cooperative", "a cooperative launch"},
    {"fact_atomic", "0:m 1:r 0>0"},
};

enum { VARIABLE_BYTES = 257 * 4 }; /* of the one that each launch may reach */

static uint64_t
bytes_of(const struct scout_ranges *ranges)
{
    uint64_t bytes = 0;
    FOR_EACH(range, ranges->items, ranges->count)
        bytes += range->hi - range->lo;
    return bytes;
}

static const struct scout_argument *
argument_at(const struct scout_op *op, uint32_t alloc, uint64_t offset)
{
    return FIND(it, op->arguments, op->argument_count, it->alloc == alloc && it->offset == offset);
}

static void
describe(const struct scout_log *log, const struct scout_op *op, char *text, size_t room)
{
    const struct scout_effect *effect = op->effect;
    size_t used = 0;
    text[0] = '\0';
    if (effect->verdict == SCOUT_EXCLUDED) {
        const char *why = scout_log_name(log, effect->why);
        snprintf(text, room, "%.*s", (int)strcspn(why, ","), why); /* without the number of an allocation */
        return;
    }
    for (uint32_t i = 0; i < op->argument_count; ++i) {
        bool reads = false, kills = false, modifies = false;
        FOR_EACH(segment, effect->segments, effect->segment_count) {
            if (segment->alloc != op->arguments[i].alloc || segment->lo != op->arguments[i].offset)
                continue;
            kills = bytes_of(&segment->killed) > 0;
            modifies = bytes_of(&segment->modified) > 0;
            reads = reads || ANY(it, effect->dependences, effect->dependence_count, it->from == NUMBER_OF(segment));
        }
        bool is_idle = !reads && !kills && !modifies;
        if (is_idle && log->allocs[op->arguments[i].alloc].bytes == VARIABLE_BYTES)
            continue;
        used += (size_t)snprintf(text + used, room - used, "%s%u:%s%s%s%s", i > 0 ? " " : "", op->arguments[i].slot,
                                 reads ? "r" : "", kills ? "k" : "", modifies ? "m" : "", is_idle ? "-" : "");
    }
    FOR_EACH(map, effect->elementwise, effect->elementwise_count) {
        const struct scout_argument *from = argument_at(op, map->from, map->from_base);
        const struct scout_argument *to = argument_at(op, map->to, map->to_base);
        if (from != NULL && to != NULL)
            used += (size_t)snprintf(text + used, room - used, " %u>%u", from->slot, to->slot);
    }
    if (effect->hidden_read)
        snprintf(text + used, room - used, " hidden");
}

/* The last time that it was repeated. */
static const struct scout_op *
find(const struct scout_log *log, const char *kernel)
{
    for (uint32_t i = log->op_count; i-- > 0;) {
        if (log->ops[i].effect != NULL && strcmp(scout_log_name(log, log->ops[i].name), kernel) == 0)
            return &log->ops[i];
    }
    return NULL;
}

int
main(int argc, char **argv)
{
    struct scout_log log;
    const char *why = "no file";
    int bad = 0;
    if (argc != 2 || !scout_log_open(argv[1], &log, &why)) {
        printf("not ok - the recording can be read (%s)\n", why);
        return 1;
    }
    for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); ++i) {
        char found[1024] = "never repeated";
        const struct scout_op *op = find(&log, facts[i].kernel);
        if (op != NULL)
            describe(&log, op, found, sizeof(found));
        bool same = strcmp(found, facts[i].expected) == 0;
        printf(same ? "ok - %s: %s\n" : "not ok - %s (%s, expected: %s)\n", facts[i].kernel, found, facts[i].expected);
        bad += !same;
    }
    uint32_t most = 0;
    FOR_EACH(op, log.ops, log.op_count)
        most = op->effect != NULL && op->effect->tests > most ? op->effect->tests : most;
    printf("%s - at most 16 repetitions of a launch (%u)\n", most > 0 && most <= 16 ? "ok" : "not ok", most);
    bad += most == 0 || most > 16;
    scout_log_free(&log);
    return bad > 0;
}
