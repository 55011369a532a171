/*
 * verdict.c - see verdict.h. The order of the questions is the order of what can be known: a program that does not
 * repeat itself tells nothing, an early difference explains the later ones, and a difference in all tensors has another
 * cause than one in a few.
 */
#include "tools/check/command/verdict.h"

#include "base/mutant.h"
#include "tools/check/command/pattern.h"
#include "tools/check/format/element.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LATE = 3, MOST_NUDGED = 4 };

static const double unrepeatable = 1e-3; /* a relative difference of a program from itself that hides too much */

const char *
check_cause_name(enum check_cause cause)
{
    static const char *const names[CAUSE_COUNT] = {
        [CAUSE_DATA] = "data",
        [CAUSE_SCALE] = "scale",
        [CAUSE_DIRECTION] = "direction",
        [CAUSE_UPDATE] = "update",
        [CAUSE_TENSOR] = "tensor",
        [CAUSE_START] = "start",
        [CAUSE_UNANNOTATED] = "unannotated",
        [CAUSE_SAME_BATCH] = "same_batch",
        [CAUSE_OVERFLOW] = "overflow",
        [CAUSE_OVERLAP] = "overlap",
        [CAUSE_RANKS] = "ranks",
        [CAUSE_SEEDED] = "seeded",
        [CAUSE_STOPPED] = "stopped",
        [CAUSE_NOT_REPEATABLE] = "not_repeatable",
        [CAUSE_CHAOTIC] = "chaotic",
        [CAUSE_BATCH_DEPENDENT] = "batch_dependent",
        [CAUSE_INDIVISIBLE] = "indivisible",
        [CAUSE_DATA_SET] = "data_set",
        [CAUSE_NOTHING] = "nothing_compared",
        [CAUSE_UNMOVED] = "not_moved",
        [CAUSE_ENDLESS] = "not_finite",
        [CAUSE_REDUCTION] = "reduction",
        [CAUSE_INDEPENDENT] = "independent",
        [CAUSE_CARRIED] = "host_memory",
        [CAUSE_PLAN] = "plan",
    };
    return names[cause];
}

/* ---- verdicts ---- */

/*
 * Equal parameters all the same: the update takes the factor back, as one that divides sums by the rank's share does
 * (equal.c). So does an optimizer that knows no factors, which hides a wrong divisor: that is not called equal.
 */
static void
judge_factor(const struct check_evidence *evidence, struct check_verdict *verdict, const struct pattern *pattern,
             struct check_wishes *wishes)
{
    double n = evidence->ranks;
    bool too_small = fabs(verdict->factor * n - 1) < 0.02, too_large = fabs(verdict->factor / n - 1) < 0.02;
    bool compensated = pattern->all[CHECK_PARAMETER] > 0 && pattern->ever[CHECK_PARAMETER] == 0 &&
                       !evidence->grows; /* the ranks' own */
    wishes->factor = compensated && check_evidence_is_forced(evidence) ? verdict->factor : 0;
    sentence_differs(evidence, verdict, compensated ? CHECK_NOT_COMPARABLE : CHECK_DIFFERENT, CAUSE_SCALE,
                     pattern->first, ": every gradient is %.4g times one rank's%s%s", verdict->factor,
                     factor_meaning(evidence, verdict->factor),
                     compensated ? ", and the parameters are equal: the update compensates the factor" : "");
    if (too_small && compensated)
        sentence_say(
            verdict->advice,
            "the training is right if the update divides sums by the rank's share (the count of DDP_SHARD); to "
            "compare it, let the update divide by the whole batch and use --reduce sum. If the loss is divided by the "
            "whole batch instead, divide it by the share");
    else if (too_small)
        sentence_say(
            verdict->advice,
            "the loss is divided by the whole batch on each rank, and then averaged: divide by the rank's share "
            "(the count of DDP_SHARD), or run with --reduce sum");
    else if (too_large)
        sentence_say(verdict->advice, "gradients are sums where one rank's are means, or the other way round: %s",
                     evidence->sums ? "leave --reduce sum out"
                                    : "divide by the whole batch in both, and run with --reduce sum");
    else
        sentence_say(verdict->advice,
                     "look for a factor that depends on the share or on the number of ranks: the divisor of "
                     "the loss, a learning rate in the gradient, a loss scale");
}

/* What the gradients of the shares say, computed on one rank. */
static bool
judge_shares(const struct check_evidence *evidence, struct check_verdict *verdict, const struct check_item *first)
{
    char place[600];
    double least, most;
    if (!pattern_depends_on_batch(evidence))
        return false;
    sentence_place(evidence, verdict, first, place);
    if (pattern_parts(evidence, &least, &most)) {
        sentence_decide(verdict, CHECK_DIFFERENT, CAUSE_DIRECTION, first);
        sentence_say(verdict->text,
                     "%s; the gradient of the whole batch is %.4g times that of one share and %.4g times that of "
                     "another, and the ranks average them as equals",
                     place, least, most);
        sentence_say(verdict->advice,
                     "each rank divides its loss by a number of its share's own, such as that of valid labels: before "
                     "backward weigh the share by it, DDP_WEIGHT(number of the share, number of the batch)");
        return true;
    }
    sentence_decide(verdict, CHECK_NOT_COMPARABLE, CAUSE_BATCH_DEPENDENT, first);
    sentence_say(verdict->text,
                 "%s; on one rank, too, the mean of the gradients of %d shares is not the gradient of the whole batch",
                 place, evidence->ranks);
    sentence_say(verdict->advice,
                 "look at what makes a share's result its own: what is read of the batch with `first` and `count` "
                 "of DDP_SHARD; random numbers (check with dropout and augmentation off); statistics of the share "
                 "(check with those of batch-norm fixed)");
    return true;
}

/* The gradients that differ are all N times, or the N-th part of, one rank's, and others are equal. */
static bool
judge_common_factor(const struct check_evidence *evidence, struct check_verdict *verdict, const struct pattern *pattern)
{
    double n = evidence->ranks, common = 0;
    for (size_t i = 0; i < verdict->item_count; ++i) {
        const struct check_item *item = &verdict->items[i];
        if (item->tensor.role != CHECK_GRADIENT || !item->differs || item->moment != pattern->moment)
            continue;
        const struct check_row *row = pattern_row(&evidence->ranked[item->first_rank], &item->tensor, 1);
        double factor, exact = 0;
        if (row != NULL && factor_of_row(row, &factor))
            exact = fabs(factor - n) < 1e-3 * n ? n : fabs(factor * n - 1) < 1e-3 ? 1 / n : 0;
        if (exact == 0 || (common != 0 && exact != common))
            return false;
        common = exact;
    }
    if (common == 0 || !pattern_some_are_equal(evidence, verdict))
        return false;
    verdict->factor = common;
    sentence_differs(evidence, verdict, CHECK_DIFFERENT, CAUSE_SCALE, pattern->first,
                     ": it is %.4g times one rank's%s; %zu of %zu gradients are equal", common,
                     factor_meaning(evidence, common),
                     pattern->all[CHECK_GRADIENT] - pattern->differing[CHECK_GRADIENT], pattern->all[CHECK_GRADIENT]);
    sentence_say(verdict->advice, "%s: compute it as the other gradients are",
                 common < 1
                     ? "this gradient is divided by the whole batch, or by the number of ranks, and then averaged"
                     : "this gradient is a sum where the others are means, or is multiplied by the number of "
                       "ranks");
    return true;
}

static void
judge_first_gradients(const struct check_evidence *evidence, struct check_verdict *verdict,
                      const struct pattern *pattern, struct check_wishes *wishes)
{
    char place[600];
    double factor;
    uint64_t total;
    const struct check_item *first = pattern->first;
    bool weighs = check_evidence_weighs(evidence);
    if (pattern_has_uneven_shares(evidence, &total) && !weighs) {
        sentence_differs(evidence, verdict, CHECK_NOT_COMPARABLE, CAUSE_INDIVISIBLE, first,
                         "; %llu items do not divide evenly among %d ranks, and the mean of unequal shares is not the "
                         "mean of all items",
                         (unsigned long long)total, evidence->ranks);
        sentence_say(verdict->advice,
                     "check with a batch that %d divides, or with another -n; or weigh the shares: DDP_WEIGHT(count, "
                     "total)",
                     evidence->ranks);
        return;
    }
    if (pattern_is_scaled(evidence, &factor)) {
        verdict->factor = factor;
        judge_factor(evidence, verdict, pattern, wishes);
        return;
    }
    bool few = pattern_is_few(pattern->differing[CHECK_GRADIENT], pattern->all[CHECK_GRADIENT]);
    if (!few && update_judge_clipping(evidence, verdict, first))
        return;
    if (judge_common_factor(evidence, verdict, pattern))
        return;
    /* The mean over runs with the shares of other ranks is not weighted. */
    wishes->turns = check_rows_find(&evidence->ranked[0], CHECK_ROW_SHARD) != NULL && !weighs && !evidence->grows;
    if (wishes->turns && judge_shares(evidence, verdict, first))
        return;
    if (few) {
        sentence_differs(evidence, verdict, CHECK_DIFFERENT, CAUSE_TENSOR, first, "; %zu of %zu gradients are equal",
                         pattern->all[CHECK_GRADIENT] - pattern->differing[CHECK_GRADIENT],
                         pattern->all[CHECK_GRADIENT]);
        sentence_say(verdict->advice,
                     "compare its annotation with its allocation: count, type, and that it is written before "
                     "DDP_STEP");
        return;
    }
    if (pattern_some_are_equal(evidence, verdict)) {
        sentence_differs(evidence, verdict, CHECK_DIFFERENT, CAUSE_UNANNOTATED, first,
                         ", and %zu of %zu gradients are equal: the ranks have the right batch",
                         pattern->all[CHECK_GRADIENT] - pattern->differing[CHECK_GRADIENT],
                         pattern->all[CHECK_GRADIENT]);
        sentence_say(verdict->advice,
                     "backward reads memory in front of it that is not the same on all ranks and is not annotated: "
                     "a second copy of a weight, a weight without DDP_PARAMETER");
        return;
    }
    if (!evidence->grows && pattern_takes_whole_batches(evidence) && !pattern_has_one_batch(evidence)) {
        sentence_decide(verdict, CHECK_NOT_COMPARABLE, CAUSE_DATA_SET, first);
        sentence_say(
            verdict->text,
            "%s; each of %d ranks computes a batch as large as that of one rank alone: together they compute one that "
            "is %d times as large",
            sentence_place(evidence, verdict, first, place), evidence->ranks, evidence->ranks);
        sentence_say(verdict->advice, "give one rank the batch of all ranks: --alone \"ARGUMENTS\"");
        return;
    }
    verdict->is_vague = !pattern_has_one_batch(evidence) && data_verdict_unknown(evidence, verdict, pattern);
    if (verdict->is_vague)
        return;
    sentence_differs(evidence, verdict, CHECK_DIFFERENT, CAUSE_DIRECTION, first, "; %zu of %zu gradients differ",
                     pattern->differing[CHECK_GRADIENT], pattern->all[CHECK_GRADIENT]);
    sentence_say(verdict->advice,
                 pattern_has_one_batch(evidence)
                     ? "all ranks compute the same batch, and another one than one rank: share the batch out with "
                       "DDP_SHARD"
                     : "the ranks' shares together are not the batch of one rank: look for a shuffle that is "
                       "seeded by rank, shares that overlap or are not equal, weights that are not annotated");
}

static void
judge_start(const struct check_evidence *evidence, struct check_verdict *verdict, const struct pattern *pattern)
{
    const struct check_row *of_rank_0 = pattern_row(&evidence->ranked[0], &pattern->first->tensor, 1);
    if (of_rank_0 == NULL || !(of_rank_0->norms.difference <= evidence->tolerance * of_rank_0->norms.reference)) {
        update_judge(evidence, verdict, pattern);
        return;
    }
    sentence_differs(evidence, verdict, CHECK_DIFFERENT, CAUSE_START, pattern->first,
                     ": it does not begin with rank 0's values");
    sentence_say(verdict->advice,
                 "%s gives all ranks rank 0's values at once: it must stand behind the initialisation "
                 "(and behind loading a checkpoint)%s",
                 pattern->first->tensor.role == CHECK_STATE ? "DDP_STATE" : "DDP_PARAMETER",
                 evidence->grows ? "; and DDP_STEP must stand in front of the update" : "");
}

static void
judge_difference(const struct check_evidence *evidence, struct check_verdict *verdict, const struct pattern *pattern,
                 struct check_wishes *wishes)
{
    const struct check_item *first = pattern->first;
    bool of_first_gradients =
        pattern->moment == items_moment(CHECK_GRADIENT, 1) && pattern->differing[CHECK_GRADIENT] > 0;
    double factor;
    if (!evidence->grows && data_verdict(evidence, verdict, pattern)) /* no run has the data of all ranks */
        return;
    if (first->unbounded) {
        sentence_differs(evidence, verdict, CHECK_DIFFERENT, CAUSE_OVERFLOW, first, ": %s",
                         first->endless ? "other elements are infinite or NaN than on one rank"
                                        : "elements are infinite or NaN, and finite on one rank");
        sentence_say(verdict->advice, evidence->wire_type != 0
                                          ? "16 bits do not hold these gradients: use --compress bf16, or none"
                                          : "look for a sum over ranks that does not fit its type, or for a share "
                                            "without items");
    } else if (!(of_first_gradients && pattern_is_scaled(evidence, &factor)) &&
               update_judge_memory(evidence, verdict, pattern)) {
        return;
    } else if (pattern->moment == items_moment(CHECK_PARAMETER, 1)) {
        judge_start(evidence, verdict, pattern);
    } else if (of_first_gradients) {
        judge_first_gradients(evidence, verdict, pattern, wishes);
    } else {
        update_judge(evidence, verdict, pattern);
    }
}

/* By a plan ranks get no share of a batch, and the program has no annotations. */
static void
judge_turns(const struct check_evidence *evidence, struct check_verdict *verdict, const struct pattern *pattern)
{
    sentence_differs(evidence, verdict, CHECK_DIFFERENT, CAUSE_PLAN, pattern->first, "%s", "");
    sentence_say(verdict->advice,
                 "do not train by this plan: ranks that take turns do not compute what the program does; make it anew "
                 "by ddprun scout --prove with these arguments, and check that one");
}

/* Each rank has a batch as large as one rank's, by no share of it; or the batch is smaller than the number of ranks. */
static bool
has_batches_of_its_own(const struct check_evidence *evidence)
{
    const struct check_row *shard = check_rows_find(&evidence->ranked[0], CHECK_ROW_SHARD);
    const struct check_row *alone = check_rows_find(&evidence->alone, CHECK_ROW_COPIED);
    if (shard != NULL)
        return shard->value < (uint64_t)evidence->ranks;
    for (int r = 0; r < evidence->ranks; ++r) {
        const struct check_row *row = check_rows_find(&evidence->ranked[r], CHECK_ROW_COPIED);
        if (alone == NULL || alone->value == 0 || row == NULL || row->value != alone->value)
            return false;
    }
    return !pattern_has_one_batch(evidence);
}

/* Programs of one record an update: N ranks make another training of them. */
static void
offer_growth(const struct check_evidence *evidence, struct check_verdict *verdict)
{
    const struct check_item *first = verdict->first;
    size_t length = strlen(verdict->advice);
    bool of_data = verdict->cause == CAUSE_DATA || verdict->cause == CAUSE_DATA_SET ||
                   verdict->cause == CAUSE_DIRECTION || verdict->cause == CAUSE_INDIVISIBLE;
    bool of_updates = verdict->cause == CAUSE_UPDATE && first != NULL && first->tensor.role == CHECK_PARAMETER &&
                      check_rows_find(&evidence->ranked[0], CHECK_ROW_AVERAGED) != NULL;
    if (evidence->grows || (!of_data && !of_updates) || first == NULL || first->first_step > (of_updates ? 2U : 1U) ||
        !has_batches_of_its_own(evidence))
        return;
    snprintf(verdict->advice + length, sizeof(verdict->advice) - length,
             "; if one rank updates after each record, let rank r take record i * N + r, and check with --batch-grows "
             "that N ranks make one update of N records");
}

/* What rank 0 computes of its first batch is another thing where there are N ranks. */
static bool
judge_grown(const struct check_evidence *evidence, struct check_verdict *verdict)
{
    struct check_evidence one = *evidence;
    struct check_rows rows = evidence->grown;
    double factor;
    one.ranked = &rows;
    if (rows.count == 0 || !pattern_is_scaled(&one, &factor))
        return false;
    bool is_update = rows.rows[0].averaged; /* of sums over records so many times as large */
    if (is_update && fabs(factor / evidence->ranks - 1) < 0.01)
        return false;
    verdict->factor = factor;
    sentence_decide(verdict, CHECK_DIFFERENT, CAUSE_SCALE, NULL);
    sentence_say(verdict->text,
                 "in step 1 rank 0's own %s are %.4g times what one rank alone makes of the same batch%s",
                 is_update ? "updates" : "gradients", factor, factor_meaning(evidence, factor));
    sentence_say(verdict->advice,
                 is_update ? "DDP_STEP_PARAMETERS makes the mean of the ranks' updates: let the rate be one rank's, or "
                             "rate * DDP_WORLD_SIZE() where the loss is a sum over records"
                           : "DDP_STEP makes the mean of the ranks' gradients: compute them as one rank does, without "
                             "DDP_WORLD_SIZE()");
    return true;
}

/* Over all that counts; the roles whose differences are shown. */
static void
find_largest(const struct check_evidence *evidence, struct check_verdict *verdict)
{
    bool in_rounds = check_evidence_in_rounds(evidence);
    verdict->largest = 0;
    for (size_t i = 0; i < verdict->item_count; ++i) {
        const struct check_item *item = &verdict->items[i];
        bool counts =
            (item->tensor.role == CHECK_PARAMETER || item->tensor.role == CHECK_GRADIENT) && !item->compensated;
        if (in_rounds)
            counts = item->tensor.role == CHECK_REDUCE && !item->ignored && item->factor == 0;
        if (counts && item->typical >= verdict->largest) {
            verdict->largest = item->typical;
            verdict->largest_floor = item->floor;
        }
    }
}

static void
wish_for_probes(const struct check_evidence *evidence, const struct check_verdict *verdict, struct check_wishes *wishes)
{
    bool first = true;
    for (size_t i = 0; i < verdict->item_count; ++i) {
        const struct check_item *item = &verdict->items[i];
        if (item->tensor.role != CHECK_MEMORY || !item->differs || evidence->probe.count > 0 || evidence->steps < 2)
            continue;
        if (first)
            wishes->probed_count = 0;
        first = false;
        if (wishes->probed_count < sizeof(wishes->probed) / sizeof(wishes->probed[0]))
            wishes->probed[wishes->probed_count++] = item->tensor.number;
    }
}

static bool
is_right_without_overlap(const struct check_evidence *evidence)
{
    size_t count;
    bool right = true;
    struct check_item *items = items_make(evidence, evidence->plain, &count);
    for (size_t i = 0; i < count; ++i)
        right = right && !items[i].differs;
    free(items);
    return right && count > 0;
}

/* The narrowest type that parameters or gradients have, that gradients are sent in, or that calls of libraries name. */
static int
narrowest_type(const struct check_evidence *evidence)
{
    int type = evidence->wire_type;
    for (size_t i = 0; i < evidence->ranked[0].count && type != ELEMENT_BFLOAT16; ++i) {
        const struct check_row *row = &evidence->ranked[0].rows[i];
        bool narrow = row->tensor.type == ELEMENT_FLOAT16 || row->tensor.type == ELEMENT_BFLOAT16;
        bool counts = row->tensor.role == CHECK_GRADIENT || row->tensor.role == CHECK_PARAMETER;
        if (row->kind == CHECK_ROW_TENSOR && counts && narrow)
            type = (int)row->tensor.type;
    }
    const struct check_row *named[] = {check_rows_find(&evidence->alone, CHECK_ROW_TYPES),
                                       check_rows_find(&evidence->ranked[0], CHECK_ROW_TYPES)};
    uint64_t types = (named[0] != NULL ? named[0]->value : 0) | (named[1] != NULL ? named[1]->value : 0);
    if ((types & CHECK_TYPES_BFLOAT16) != 0)
        return ELEMENT_BFLOAT16;
    return type == 0 && (types & CHECK_TYPES_FLOAT16) != 0 ? ELEMENT_FLOAT16 : type;
}

/* Whether of each rank something that is trained was compared. */
static bool
is_compared(const struct check_evidence *evidence)
{
    int ranks = 0;
    for (int r = 0; r < evidence->ranks; ++r) {
        bool any = false;
        for (size_t i = 0; i < evidence->ranked[r].count && !any; ++i) {
            const struct check_row *row = &evidence->ranked[r].rows[i];
            any = row->kind == CHECK_ROW_TENSOR &&
                  (row->tensor.role == CHECK_PARAMETER || row->tensor.role == CHECK_GRADIENT);
        }
        ranks += any;
    }
    return ranks > 0 && ranks == evidence->ranks;
}

/* A difference that was there a whole step before ddprun ended the run may be why it did. */
static bool
differs_before_stop(const struct check_evidence *evidence, const struct pattern *pattern)
{
    unsigned last = 0;
    for (int r = 0; r < evidence->ranks; ++r) {
        for (size_t i = 0; i < evidence->ranked[r].count; ++i) {
            const struct check_row *row = &evidence->ranked[r].rows[i];
            unsigned moment =
                row->kind == CHECK_ROW_TENSOR && row->tensor.role == CHECK_PARAMETER ? items_moment_of(row) : 0;
            last = moment > last ? moment : last;
        }
    }
    return pattern->moment != 0 && pattern->moment < last;
}

static void
say_stop(const struct check_evidence *evidence, struct check_verdict *verdict)
{
    size_t length = strlen(verdict->text);
    snprintf(verdict->text + length, sizeof(verdict->text) - length, "; later ddprun ended the run: %.400s",
             evidence->stopped);
}

void
check_judge(const struct check_evidence *given, struct check_verdict *verdict, struct check_wishes *wishes)
{
    struct check_evidence settled = *given;
    const struct check_evidence *evidence = &settled;
    double tolerance = items_tolerance(narrowest_type(given));
    settled.is_asked = given->tolerance >= 0;
    if (!settled.is_asked)
        settled.tolerance = tolerance;
    settled.bearable = MUTANT(CHECK_ANY_TOLERANCE) ? INFINITY : ITEMS_BEARABLE * tolerance;
    *verdict =
        (struct check_verdict){.result = CHECK_EQUAL, .tolerance = evidence->tolerance, .bearable = evidence->bearable};
    *wishes = (struct check_wishes){.turns = false};
    double repeated = pattern_worst(evidence, &evidence->again);
    verdict->items = items_make(evidence, evidence->ranked, &verdict->item_count);
    items_sort(verdict->items, verdict->item_count);
    find_largest(evidence, verdict);
    struct agreement agreement = agreement_find(evidence);
    /* Ranks that go on with bits of their own do not repeat what they do where their steps begin alike. */
    bool part = evidence->grows && agreement.moment != 0;
    if (repeated > fmax(unrepeatable, evidence->tolerance) && !part) {
        sentence_decide(verdict, CHECK_NOT_COMPARABLE, CAUSE_NOT_REPEATABLE, NULL);
        sentence_say(verdict->text,
                     "the program does not repeat itself on one rank: two runs differ by %.2g in %u steps", repeated,
                     evidence->steps);
        sentence_say(verdict->advice,
                     "give it a fixed seed (not the clock, not std::random_device), for the check at least");
        return;
    }
    if (!check_evidence_in_rounds(evidence) && !is_compared(evidence) && evidence->stopped[0] == '\0') {
        sentence_decide(verdict, CHECK_NOT_COMPARABLE, CAUSE_NOTHING, NULL);
        sentence_say(verdict->text, "no parameter and no gradient of a rank was compared with one rank's");
        sentence_say(verdict->advice, "annotate parameters and gradients (man ddprun.h)");
        return;
    }
    reductions_settle(evidence, verdict);
    struct pattern pattern = pattern_find(evidence, verdict);
    equal_settle_factor(evidence, verdict, &pattern);
    find_largest(evidence, verdict);
    wish_for_probes(evidence, verdict, wishes);
    wishes->plain = pattern.moment != 0 && evidence->overlapped_steps > 0 && evidence->plain == NULL;
    const struct check_row *alarm = NULL;
    for (int r = 0; r < evidence->ranks && alarm == NULL; ++r)
        alarm = check_rows_find(&evidence->ranked[r], CHECK_ROW_ALARM);
    bool goes_on = pattern.moment != 0 && pattern.first->unbounded; /* finite on one side */
    unsigned moment = pattern.moment == 0 || (agreement.moment != 0 && agreement.moment < pattern.moment)
                          ? agreement.moment
                          : pattern.moment;
    bool is_stopped = evidence->stopped[0] != '\0' && !differs_before_stop(evidence, &pattern);
    if (evidence->stopped[0] == '\0' && !goes_on && equal_judge_endless(evidence, verdict, moment)) {
        wishes->plain = false;
    } else if (is_stopped) {
        sentence_decide(verdict, CHECK_DIFFERENT, CAUSE_STOPPED, pattern.first);
        sentence_say(verdict->text, "ddprun ended the run of %d ranks: %.900s", evidence->ranks, evidence->stopped);
    } else if (agreement.moment != 0 && (pattern.moment == 0 || agreement.moment < pattern.moment)) {
        equal_judge_ranks(evidence, verdict, &agreement);
    } else if (pattern.moment == 0 && alarm != NULL) {
        sentence_decide(verdict, CHECK_DIFFERENT, CAUSE_STOPPED, NULL);
        sentence_say(verdict->text, "%.1000s", alarm->text);
    } else if (reductions_judge_rounds(evidence, verdict, wishes)) {
        wishes->plain = false;
    } else if (judge_grown(evidence, verdict)) {
        wishes->plain = false;
    } else if (pattern.moment == 0) {
        equal_judge(evidence, verdict);
        reductions_judge_besides(evidence, verdict);
    } else if (evidence->plain != NULL && is_right_without_overlap(evidence)) {
        sentence_differs(evidence, verdict, CHECK_DIFFERENT, CAUSE_OVERLAP, pattern.first,
                         ", and does not with --no-overlap");
        sentence_say(verdict->advice, "%s",
                     alarm != NULL ? alarm->text
                                   : "a gradient is written or read where ddprun cannot see it while it is "
                                     "averaged: run with --no-overlap");
    } else if (evidence->by_plan) {
        judge_turns(evidence, verdict, &pattern);
    } else {
        judge_difference(evidence, verdict, &pattern, wishes);
        offer_growth(evidence, verdict);
    }
    if (evidence->stopped[0] != '\0' && !is_stopped)
        say_stop(evidence, verdict);
    if (verdict->result != CHECK_DIFFERENT)
        wishes->plain = false;
    /* Rounding may decide something late; what is first is wrong in all steps. */
    wishes->nudged = verdict->result == CHECK_DIFFERENT && pattern.moment != 0 && check_evidence_is_forced(evidence) &&
                     pattern.first->tensor.role == CHECK_GRADIENT && pattern.first->first_step >= LATE &&
                     !pattern.first->unbounded && evidence->nudged_runs < MOST_NUDGED &&
                     (verdict->cause == CAUSE_UPDATE || verdict->cause == CAUSE_TENSOR);
}

void
check_verdict_free(struct check_verdict *verdict)
{
    free(verdict->items);
    *verdict = (struct check_verdict){.result = CHECK_EQUAL};
}
