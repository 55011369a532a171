/*
 * renewed.c - see finding.h.
 *
 * A program may make the same calls in each step, and have no period, because memory that one step leaves to the next
 * is a new allocation in each: a gradient that an addition returns in memory of its own.
 */
#include "tools/scout/command/analysis/finding.h"

#include "launcher/common/xcalloc.h"
#include "tools/common/owned.h"

/* When operations of the log use an allocation. */
struct life {
    uint32_t first, last; /* operations; `last` is 0 where none uses it */
};

/* Notes that the operation uses the allocation; SCOUT_NONE is none. */
static void
note_use(struct life *lives, uint32_t alloc, uint32_t op)
{
    if (alloc == SCOUT_NONE)
        return;
    if (lives[alloc].last == 0)
        lives[alloc].first = op;
    lives[alloc].last = op;
}

/* Notes all allocations that an operation names. */
static void
note_uses(struct life *lives, const struct scout_op *op, uint32_t number)
{
    bool is_transfer = op->kind == SCOUT_FILL || op->kind == SCOUT_COPY;
    if (is_transfer)
        note_use(lives, op->to.alloc, number);
    if (op->kind == SCOUT_COPY)
        note_use(lives, op->from.alloc, number);
    FOR_EACH(argument, op->arguments, op->argument_count)
        note_use(lives, argument->alloc, number);
}

/* After how many operations the calls of [first, end) repeat, three times at least, whatever memory they get; 0: they
 * do not. */
static uint32_t
find_lag(const struct scout_log *log, uint32_t first, uint32_t end)
{
    for (uint32_t lag = 1; lag <= (end - first) / 3; ++lag) {
        uint32_t run = 0;
        for (uint32_t i = first + lag; i < end; ++i) {
            run = scout_is_same_call(&log->ops[i], &log->ops[i - lag]) ? run + 1 : 0;
            if (run >= 2 * lag)
                return lag;
        }
    }
    return 0;
}

char *
renewed_reason(const struct scout_log *log, uint32_t end)
{
    char name[SCOUT_NAME_BYTES];
    uint32_t first = end;
    while (first > 0 && log->ops[first - 1].effect != NULL)
        --first;
    const uint32_t lag = find_lag(log, first, end);
    OWNED struct life *lives = xcalloc(log->alloc_count + 1, sizeof(*lives));
    for (uint32_t i = first; i < end; ++i)
        note_uses(lives, &log->ops[i], i);
    for (uint32_t a = 0; a < log->alloc_count && lag > 0; ++a) {
        bool is_of_step = log->allocs[a].made_at > first && lives[a].last >= lives[a].first + lag;
        if (is_of_step)
            return xasprintf(
                "steps repeat, but not in one place: each step allocates new memory for what %s writes and "
                "the next step uses; allocate it once, before the first step",
                scout_op_name(log, &log->ops[lives[a].first], name));
    }
    return xstrdup("the program's operations do not repeat");
}
