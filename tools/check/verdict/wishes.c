/* wishes.c - see verdict.h. */
#include "tools/check/verdict/verdict.h"

enum { LATE_STEP = 3, MOST_NUDGED = 4 };

/* Whether nothing can be told from more runs. */
static bool
is_hopeless(const struct check_verdict *verdict)
{
    return verdict->cause == CAUSE_NOT_REPEATABLE || verdict->cause == CAUSE_NOTHING;
}

/* Whether overlap may have made the difference, as far as is known. */
static bool
may_be_overlap(const struct check_facts *facts, const struct check_verdict *verdict)
{
    return verdict->result == CHECK_DIFFERENT && facts->first.item != NULL && !facts->in_rounds &&
           facts->overlapped_steps > 0 && !facts->has_plain;
}

static bool
wishes_plain(const struct check_facts *facts, const struct check_verdict *verdict)
{
    bool may_be = !facts->first.is_of_first_step; /* of which no average begins during backward */
    return may_be && may_be_overlap(facts, verdict) && !is_hopeless(verdict);
}

/* Whether the ranks should run once more: do they repeat what they do? */
static bool
wishes_again(const struct check_facts *facts, const struct check_verdict *verdict)
{
    if (verdict->cause == CAUSE_RANKS)
        return facts->apart.may_be_noise;
    return !facts->has_repeat && facts->first.is_gradient && may_be_overlap(facts, verdict);
}

/* Would one process with such gradients, or such results, show it? */
static double
wished_factor(const struct check_facts *facts, const struct check_verdict *verdict)
{
    enum { TIMES = 2 };
    if (verdict->cause == CAUSE_INDEPENDENT)
        return facts->has_scaled ? 0 : TIMES;
    bool removes = verdict->cause == CAUSE_SCALE && !facts->in_rounds && facts->has_equal_parameter;
    return removes && facts->is_forced ? facts->first.factor_of_all : 0;
}

static bool
wishes_probe(const struct check_facts *facts, const struct check_verdict *verdict)
{
    return !facts->has_probe && facts->steps > 1 && facts->is_memory_different && !is_hopeless(verdict);
}

/* Whether one process should run once more from starts a unit in the last place away: rounding may decide something
 * late, where what is first is wrong in all steps, or a gradient nearly cancels. */
static bool
wishes_nudged(const struct check_facts *facts, const struct check_verdict *verdict)
{
    const struct check_item *first = facts->first.item;
    if (verdict->result == CHECK_EQUAL || !facts->first.is_gradient || first->unbounded)
        return false;
    if (!facts->is_forced || facts->nudged_runs >= MOST_NUDGED)
        return false;
    bool is_late = first->first_step >= LATE_STEP && (verdict->cause == CAUSE_UPDATE || verdict->cause == CAUSE_TENSOR);
    return is_late || first->typical <= facts->bearable;
}

/* Which further runs would make the verdict surer; called by check.c after each verdict, until there is none. */
void
verdict_wish(const struct check_facts *facts, const struct check_verdict *verdict, struct check_wishes *wishes)
{
    *wishes = (struct check_wishes){.plain = wishes_plain(facts, verdict),
                                    .again = wishes_again(facts, verdict),
                                    .factor = wished_factor(facts, verdict),
                                    .probe = wishes_probe(facts, verdict),
                                    .nudged = wishes_nudged(facts, verdict),
                                    .far = verdict->cause == CAUSE_CARRIED && !facts->has_far};
}
