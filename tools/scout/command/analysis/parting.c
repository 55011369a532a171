/*
 * parting.c - see finding.h.
 *
 * A program of which no three steps are alike may choose among several kinds of steps: after one of its calls another
 * call comes in some steps, in no regular order. A loop in a step has an order.
 */
#include "tools/scout/command/analysis/finding.h"

#include "launcher/common/xcalloc.h"
#include "tools/common/owned.h"

enum { LEAST_TIMES = 6, LEAST_EACH = 2 };

/* What follows each occurrence of a call: operations. */
struct occurrences {
    const struct scout_log *log;
    uint32_t *next; /* [count] */
    uint32_t count;
};

static bool
are_same(const struct occurrences *it, uint32_t i, uint32_t k)
{
    return scout_is_same_call(&it->log->ops[it->next[i]], &it->log->ops[it->next[k]]);
}

/* Lists the operations after each one that the same call as operation `op` has made. */
static void
find_occurrences(struct occurrences *it, uint32_t op)
{
    it->count = 0;
    for (uint32_t i = 0; i + 1 < it->log->op_count; ++i)
        if (scout_is_same_call(&it->log->ops[i], &it->log->ops[op]))
            it->next[it->count++] = i + 1;
}

/* Whether what follows repeats, three times at least. */
static bool
has_order(const struct occurrences *it)
{
    for (uint32_t lag = 1; lag * 3 <= it->count; ++lag)
        if (!ANY_NUMBER(i, lag, it->count, !are_same(it, i, i - lag)))
            return true;
    return false;
}

/* The first occurrence that is followed by another call than the first one; 0: none is. Both come several times. */
static uint32_t
find_other(const struct occurrences *it)
{
    uint32_t other = 0, same = 0, others = 0;
    for (uint32_t i = 0; i < it->count; ++i) {
        const bool is_first = are_same(it, i, 0);
        same += is_first;
        other = !is_first && other == 0 ? i : other;
        others += other > 0 && are_same(it, i, other);
    }
    return same >= LEAST_EACH && others >= LEAST_EACH ? other : 0;
}

bool
parting_find(const struct scout_log *log, struct parting *parting)
{
    OWNED uint32_t *next = xcalloc(log->op_count + 1, sizeof(*next));
    struct occurrences it = {.log = log, .next = next};
    for (uint32_t op = log->op_count / 2; op < log->op_count; ++op) {
        find_occurrences(&it, op);
        const uint32_t other = it.count >= LEAST_TIMES && !has_order(&it) ? find_other(&it) : 0;
        if (other == 0)
            continue;
        *parting = (struct parting){.op = op, .one = it.next[0], .other = it.next[other], .read = UINT32_MAX};
        for (uint32_t i = 0; i < op; ++i)
            if (log->ops[i].kind == SCOUT_COPY && log->ops[i].to.alloc == SCOUT_NONE)
                parting->read = i;
        return true;
    }
    return false;
}
