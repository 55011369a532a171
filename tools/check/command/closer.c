/*
 * closer.c - the step in which a tensor first differs, made once more: which operation makes the difference
 * (session.h)?
 */
#include "tools/check/command/placed.h"
#include "tools/check/command/session.h"
#include "tools/check/format/look.h"
#include "tools/common/each.h"

#include <math.h>

/* The difference is no rounding, in whatever order 16-bit products are added. */
static bool
is_far_beyond(const struct check_item *item)
{
    enum { FAR_BEYOND = 10 };
    return item->limit > 0 && item->at_first >= FAR_BEYOND * item->limit;
}

/* Whether the verdict's tensor is to be looked at more closely: not for causes whose sentence has the place already. */
static bool
is_looked_at(const struct check *check, const struct check_verdict *verdict)
{
    static const bool causes[CAUSE_COUNT] = {
        [CAUSE_DIRECTION] = true, [CAUSE_UPDATE] = true,      [CAUSE_TENSOR] = true,    [CAUSE_SCALE] = true,
        [CAUSE_START] = true,     [CAUSE_INDIVISIBLE] = true, [CAUSE_REDUCTION] = true, [CAUSE_UNANNOTATED] = true,
        [CAUSE_RANKS] = true,     [CAUSE_OVERFLOW] = true};
    const struct check_evidence *evidence = &check->evidence;
    uint32_t role = verdict->first->tensor.role;
    bool has_place = role != CHECK_MEAN && (role != CHECK_REDUCE || check_evidence_in_rounds(evidence));
    bool is_scale = verdict->cause == CAUSE_SCALE && sentence_factor(verdict->facts, verdict->factor)[0] != '\0' &&
                    !question_is_divided(evidence, verdict) && !check_evidence_takes_turns(evidence);
    bool is_possible =
        !check->in_cluster && !check->has_reference && !evidence->by_plan && check_evidence_is_forced(evidence);
    bool is_of_update = role == CHECK_PARAMETER && verdict->first->made_in_step > 0; /* by the same averages */
    if (verdict->result == CHECK_EQUAL || !is_possible || verdict->is_precise)
        return false;
    const bool is_by_number = question_is_divided(evidence, verdict); /* the place is a number, and no memory */
    if (!question_is_exact(verdict->facts) && !is_of_update && !is_by_number && !is_far_beyond(verdict->first))
        return false;
    return causes[verdict->cause] && has_place && !is_scale;
}

/* Makes a step once more, on one rank and on all, and finds the operation in which both part, in *place if *found_p.
 * False, with the error: a run failed. */
static bool
look_at_step(struct check *check, struct place_question *question, struct place *place, bool *found,
             struct error *error)
{
    struct check_order one =
        session_order(check, "look", "one process, recording each operation of a step", CHECK_COMPARES);
    struct check_order all = session_order_ranks(check, "look-ranks", "all ranks, recording each operation of a step");
    one.run.look = all.run.look = question->interval + 1;
    uint32_t since = question->is_update && question->unseen < question->since ? question->unseen : question->since;
    one.run.look_since = all.run.look_since = since > 0 ? since - 1 : 0;
    one.run.looks_early = all.run.looks_early = question->is_early && !question->is_averaged;
    one.run.steps = one.run.look + LOOK_MORE < check->steps ? one.run.look + LOOK_MORE : check->steps;
    all.run.steps = one.run.look < check->steps ? one.run.look + 1 : check->steps;
    all.plain = true;
    struct check_outcome outcomes[2] = {0};
    bool ok = true;
    for (int k = 0; k < 2 && ok; ++k) {
        const struct check_order *order = k == 0 ? &one : &all;
        ok = session_start(check, order, &outcomes[k], error) &&
             ((outcomes[k].signal == 0 && !outcomes[k].late) ||
              session_explain(check, order, &outcomes[k], NULL, true, error));
        question->results[k] = outcomes[k].results;
    }
    question->ranks = check->ranks;
    *found = ok && place_find(question, place);
    if (ok && place->is_lost)
        message_line("cannot write %s-0.look, or one beside it: the verdict is given without its place; make room "
                     "there, or set TMPDIR",
                     outcomes[0].results);
    free(outcomes[0].results);
    free(outcomes[1].results);
    return ok;
}

/* Whether a test asks, by the environment, for the place of a tensor of a program that is equal, as if it differed
 * in step 2. */
static bool
is_forced(const struct check_verdict *verdict, struct check_item *item)
{
    const char *forced = getenv("_DDPRUN_CHECK_LOOK");
    uint32_t tensor = forced != NULL && verdict->result == CHECK_EQUAL ? (uint32_t)strtoul(forced, NULL, 16) : 0;
    const struct check_item *wanted = FIND(it, verdict->facts->items, verdict->facts->item_count,
                                           tensor == ((it->tensor.role + 1) << 24 | it->tensor.number));
    if (wanted == NULL)
        return false;
    *item = *wanted;
    item->first_step = 2;
    return true;
}

/* Finds the place of the verdict's tensor; *found_p: there is one. False, with the error: a run failed. */
static bool
look(struct check *check, struct check_verdict *verdict, struct place *place, bool *found_p, struct error *error)
{
    struct place_question question = question_find(&check->evidence, verdict);
    if (look_at_step(check, &question, place, found_p, error))
        return true;
    *found_p = false;
    if (error->exit_code > 128) /* a signal asked for the end */
        return false;
    message_line("%s; the verdict is given without its place", error->text);
    return true;
}

bool
closer_look(struct check *check, struct check_verdict *verdict, struct error *error)
{
    struct check_item item;
    struct check_verdict other = *verdict;
    struct place place;
    bool found = false, forced = is_forced(verdict, &item);
    if (forced)
        other.first = &item;
    else if (verdict->first == NULL || !is_looked_at(check, verdict))
        return true;
    if (!look(check, &other, &place, &found, error))
        return false;
    if (found && forced)
        message_line("a place in an equal program: %s", place.text);
    if (found && !forced)
        placed_verdict(verdict, &place);
    return true;
}

/* ---- further causes ---- */

/* Each update begins from the reference, with its gradients: what it makes otherwise, no gradient has made. */
static const struct check_item *
find_update(const struct check_verdict *verdict)
{
    const struct check_item *found = NULL;
    FOR_EACH(item, verdict->facts->items, verdict->facts->item_count) {
        bool is_update = item->tensor.role == CHECK_PARAMETER && item->differs && item->made_in_step > 0;
        if (is_update && (found == NULL || item->moment < found->moment))
            found = item;
    }
    return found;
}

/* The verdict of a tensor by itself. */
static struct check_verdict
verdict_of(const struct check_verdict *verdict, const struct check_item *item, enum check_cause cause)
{
    struct check_verdict other = {.result = CHECK_DIFFERENT, .cause = cause, .facts = verdict->facts, .first = item};
    (void)sentence_place(verdict->facts, item, other.text);
    return other;
}

/* Adds the place of the tensor to the verdict, if there is one. False, with the error: a run failed. */
static bool
add_place(struct check *check, struct check_verdict *verdict, struct check_verdict *other, struct error *error)
{
    struct place place;
    bool found = false;
    if (!is_looked_at(check, other))
        return true;
    if (!look(check, other, &place, &found, error))
        return false;
    if (!found)
        return true;
    placed_verdict(other, &place);
    verdict_add(verdict, other);
    return true;
}

/* Adds, as a further cause with its place, that from a later step on all gradients have a factor, which what differs
 * before does not explain. False, with the error: a run failed. */
static bool
add_later_factor(struct check *check, struct check_verdict *verdict, struct error *error)
{
    double factor;
    const uint32_t step = check_evidence_later_factor(&check->evidence, &factor);
    if (step == 0 || step == verdict->first->first_step || check_evidence_takes_turns(&check->evidence))
        return true;
    struct check_item item = *verdict->first;
    item.first_step = item.made_in_step = step;
    struct check_verdict other = verdict_of(verdict, &item, CAUSE_SCALE);
    other.factor = factor;
    sentence_say(other.text,
                 "from step %u on every gradient is about %.4g times that of one process%s, and before that it is not",
                 step, factor, sentence_factor(verdict->facts, factor));
    sentence_say(
        other.advice, "%s",
        factor < 1
            ? "divide the loss by the rank's share (the count of DDP_SHARD) in all steps, and not by the whole batch"
            : "divide sums by the rank's share (the count of DDP_SHARD) in all steps");
    struct place place;
    bool found = false;
    if (is_looked_at(check, &other) && !look(check, &other, &place, &found, error))
        return false;
    if (found)
        placed_verdict(&other, &place);
    verdict_add(verdict, &other);
    return true;
}

bool
closer_look_further(struct check *check, struct check_verdict *verdict, struct error *error)
{
    bool is_seeded = verdict->cause == CAUSE_SEEDED;
    bool is_a_difference = verdict->result == CHECK_DIFFERENT || verdict->cause == CAUSE_BATCH_DEPENDENT;
    if (!is_a_difference || verdict->first == NULL || verdict->cause == CAUSE_TURNS)
        return true;
    if (verdict->first->tensor.role != CHECK_GRADIENT || !check_evidence_is_forced(&check->evidence))
        return true;
    if (is_seeded) { /* where the ranks part by it */
        struct check_verdict other = verdict_of(verdict, verdict->first, CAUSE_DIRECTION);
        other.factor = 1; /* the seed's advice holds for its place, too */
        if (!add_place(check, verdict, &other, error))
            return false;
    }
    if (!add_later_factor(check, verdict, error))
        return false;
    const struct check_item *update = find_update(verdict);
    if (update == NULL || verdict->facts->first.factor_of_all != 0)
        return true;
    if (verdict->facts->pace.step == update->made_in_step) /* the verdict is that only some make this update */
        return true;
    struct check_verdict other = verdict_of(verdict, update, CAUSE_UPDATE);
    return add_place(check, verdict, &other, error);
}
