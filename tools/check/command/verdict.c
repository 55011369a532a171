/* verdict.c - see verdict.h. What the runs have shown, and the table that makes a verdict of it (pattern.h). */

#include "tools/check/command/pattern.h"
#include "tools/check/format/element.h"
#include "tools/common/each.h"

enum { LATE = 3, MOST_NUDGED = 4 };

static const double unrepeatable = 1e-3; /* a relative difference of a program from itself that hides too much */

const char *
check_cause_name(enum check_cause cause)
{
#define NAME(cause, name) name,
    static const char *const names[] = {CHECK_CAUSES(NAME)};
    return names[cause];
}

/* Over all that counts; the roles whose differences are shown. */
static void
find_largest(const struct check_evidence *evidence, struct check_verdict *verdict)
{
    bool in_rounds = check_evidence_in_rounds(evidence);
    FOR_EACH(item, verdict->items, verdict->item_count) {
        bool counts =
            (item->tensor.role == CHECK_PARAMETER || item->tensor.role == CHECK_GRADIENT) && !item->compensated;
        if (in_rounds)
            counts = item->tensor.role == CHECK_REDUCE && !item->ignored && item->factor == 0;
        /* The table's number, but for what only its floor makes equal. */
        double difference = item->difference <= evidence->tolerance ? item->difference : item->typical;
        if (counts && difference >= verdict->largest) {
            verdict->largest = difference;
            verdict->largest_floor = item->floor;
        }
    }
}

/* The narrowest type that parameters or gradients have, that gradients are sent in, or that calls of libraries name. */
static int
narrowest_type(const struct check_evidence *evidence)
{
    int type = evidence->wire_type;
    EACH_ROW(row, &evidence->ranked[0], CHECK_ROW_TENSOR) {
        bool narrow = row->tensor.type == ELEMENT_FLOAT16 || row->tensor.type == ELEMENT_BFLOAT16;
        bool counts = row->tensor.role == CHECK_GRADIENT || row->tensor.role == CHECK_PARAMETER;
        type = counts && narrow && type != ELEMENT_BFLOAT16 ? (int)row->tensor.type : type;
    }
    const struct check_row *named[] = {check_rows_find(&evidence->alone, CHECK_ROW_TYPES),
                                       check_rows_find(&evidence->ranked[0], CHECK_ROW_TYPES)};
    uint64_t types = (named[0] != NULL ? named[0]->value : 0) | (named[1] != NULL ? named[1]->value : 0);
    if ((types & CHECK_TYPES_BFLOAT16) != 0)
        return ELEMENT_BFLOAT16;
    return type == 0 && (types & CHECK_TYPES_FLOAT16) != 0 ? ELEMENT_FLOAT16 : type;
}

/* A difference that was there a whole step before ddprun ended the run may be why it did. */
static bool
differs_before_stop(const struct check_evidence *evidence, unsigned moment)
{
    unsigned last = 0;
    for (int r = 0; r < evidence->ranks; ++r) {
        EACH_ROW_OF(row, &evidence->ranked[r], CHECK_PARAMETER)
            last = items_moment_of(row) > last ? items_moment_of(row) : last;
    }
    return moment != 0 && moment < last;
}

/* ---- sentences that need no closer look ---- */

static bool
say_unrepeated(struct judgement *judgement)
{
    const struct check_evidence *evidence = judgement->evidence;
    *judgement->wishes = (struct check_wishes){.plain = false};
    if (judgement->row->result == CHECK_DIFFERENT) {
        verdict_decide(judgement, ", and in a second run of the ranks by another amount");
    } else {
        judgement->first = NULL;
        verdict_decide(judgement, "runs of the program in one process differ by %.2g in %u steps",
                       pattern_worst(evidence, judgement->verdict), evidence->steps);
    }
    return verdict_advise(judgement, "give the program a fixed seed (not the clock, not std::random_device), for the "
                                     "check at least; or look for a race: a cudaMemset or a copy on another stream "
                                     "than the kernels that use its memory, and no wait between them");
}

static bool
say_nothing(struct judgement *judgement)
{
    *judgement->wishes = (struct check_wishes){.plain = false};
    judgement->first = NULL;
    return verdict_conclude(judgement, "annotate parameters and gradients (man ddprun.h)",
                            "no parameter and no gradient of a rank was compared with one process's");
}

static bool
say_stopped(struct judgement *judgement)
{
    verdict_decide(judgement, "%s", "");
    sentence_say(judgement->verdict->text, "ddprun ended the run of %d ranks: %.900s", judgement->evidence->ranks,
                 judgement->evidence->stopped);
    return strstr(judgement->evidence->stopped, "same ddprun calls") == NULL ||
           verdict_advise(judgement,
                          "each rank must make these calls, in the same order: look for one that only some ranks "
                          "reach, as behind if (DDP_RANK() == 0), or for a loop whose length depends on the rank");
}

/* One rank's program has ended by itself, twice after as many steps, and a rank's was ended by ddprun. */
static bool
say_goes_on(struct judgement *judgement)
{
    const struct check_evidence *evidence = judgement->evidence;
    const struct check_row *alone = check_rows_find(&evidence->alone, CHECK_ROW_END), *end = NULL,
                           *again = check_rows_find(&evidence->again, CHECK_ROW_END);
    bool ended = alone != NULL && again != NULL && alone->value + again->value == 0 && alone->step == again->step;
    int r = 0;
    if (check_evidence_takes_turns(evidence)) /* a mean of ranks' losses is not that of one process: turns.c */
        return false;
    for (; ended && r < evidence->ranks; ++r) {
        end = check_rows_find(&evidence->ranked[r], CHECK_ROW_END);
        if (end != NULL && end->value != 0 && end->step >= alone->step)
            break;
    }
    return ended && r < evidence->ranks &&
           verdict_conclude(judgement,
                            "count the items of the whole batch, not of the rank's share; stop by a loss that DDP_MEAN "
                            "has averaged, not by a rank's own loss",
                            "one process ends after %u steps, but rank %d continues", evidence->steps, r);
}

static const struct check_row *
find_alarm(const struct check_evidence *evidence)
{
    const struct check_row *alarm = NULL;
    for (int r = 0; r < evidence->ranks && alarm == NULL; ++r)
        alarm = check_rows_find(&evidence->ranked[r], CHECK_ROW_ALARM);
    return alarm;
}

static bool
say_alarm(struct judgement *judgement)
{
    return verdict_decide(judgement, "%.1000s", find_alarm(judgement->evidence)->text);
}

static bool
say_overlap(struct judgement *judgement)
{
    const struct check_row *alarm = find_alarm(judgement->evidence);
    return verdict_conclude(
        judgement,
        alarm != NULL
            ? alarm->text
            : "averaging during backward must not change results: this is a fault of ddprun, please report it, and run "
              "with --no-overlap until it is corrected",
        ", and does not with --no-overlap");
}

/* By a plan ranks get no share of a batch, and the program has no annotations. */
static bool
say_plan(struct judgement *judgement)
{
    return verdict_conclude(judgement,
                            "do not train by this plan: ranks that take turns do not compute the program's results; "
                            "make the plan again by ddprun scout --prove with these arguments, and check it",
                            "%s", "");
}

static bool
say_unbounded(struct judgement *judgement)
{
    return verdict_conclude(judgement,
                            judgement->evidence->wire_type != 0
                                ? "16 bits do not hold these gradients: use --compress bf16, or none"
                            : judgement->first->tensor.role != CHECK_GRADIENT
                                ? "search for infinities, as a loss scaler does, after DDP_STEP"
                                : "look for a sum over ranks that does not fit its type, or for a share without items",
                            ": %s",
                            judgement->first->endless ? "other elements are infinite or NaN than in one process"
                                                      : "elements are infinite or NaN, and finite in one process");
}

/* ---- the table ---- */

/* Verdicts, in the order of what can be known: a program that does not repeat itself tells nothing, an early difference
 * explains the later ones, what was seen goes before what it may be. */
#define ROW(cause, result, needs, excludes, say)            \
    {                                                       \
        CAUSE_##cause, CHECK_##result, needs, excludes, say \
    }
static const struct verdict_row table[] = {
    ROW(NOT_REPEATABLE, NOT_COMPARABLE, SHOWN_UNREPEATED, 0, say_unrepeated),
    ROW(NOTHING, NOT_COMPARABLE, SHOWN_NOTHING, SHOWN_ROUNDS | SHOWN_STOP, say_nothing),
    ROW(ENDLESS, NOT_COMPARABLE, 0, SHOWN_STOP | SHOWN_UNBOUNDED, equal_say_endless),
    ROW(STOPPED, DIFFERENT, SHOWN_STOP, 0, say_stopped),
    ROW(UNANNOTATED, DIFFERENT, SHOWN_RANKS | SHOWN_MEMORY, 0,
        update_say_memory), /* its update tells the ranks apart */
    ROW(RANKS, DIFFERENT, SHOWN_RANKS, 0, equal_say_ranks),
    ROW(STOPPED, DIFFERENT, SHOWN_ALARM, SHOWN_DIFFERENCE, say_alarm),
    ROW(REDUCTION, DIFFERENT, SHOWN_ROUNDS, 0, reductions_say_rounds),
    ROW(STOPPED, DIFFERENT, 0, SHOWN_DIFFERENCE | SHOWN_ROUNDS | SHOWN_PLAN, say_goes_on),
    ROW(NONE, EQUAL, 0, SHOWN_DIFFERENCE, equal_say),
    ROW(NOT_REPEATABLE, DIFFERENT, SHOWN_UNSTEADY, 0, say_unrepeated),
    ROW(OVERLAP, DIFFERENT, SHOWN_PLAIN_RIGHT, 0, say_overlap),
    ROW(PLAN, DIFFERENT, SHOWN_PLAN, 0, say_plan),
    ROW(OVERFLOW, DIFFERENT, SHOWN_UNBOUNDED, 0, say_unbounded),
    /* unannotated memory; a factor of all gradients explains it */
    ROW(UNANNOTATED, DIFFERENT, SHOWN_MEMORY, SHOWN_SCALED, update_say_memory),
    ROW(UPDATE, DIFFERENT, SHOWN_START, 0, update_say_start),
    ROW(TENSOR, DIFFERENT, 0, 0, update_say_wide),
    /* gradients */
    ROW(INDIVISIBLE, NOT_COMPARABLE, SHOWN_GRADIENT | SHOWN_UNEVEN, SHOWN_WEIGHS, gradients_say_uneven),
    ROW(SCALE, DIFFERENT, SHOWN_GRADIENT, 0, gradients_say_factor),
    ROW(DATA_SET, NOT_COMPARABLE, SHOWN_FIRST | SHOWN_WHOLE, SHOWN_ONE_BATCH | SHOWN_FEW, gradients_say_data_set),
    ROW(DIRECTION, DIFFERENT, SHOWN_RESULT, 0, gradients_say_differ),
    /* the update */
    ROW(UPDATE, DIFFERENT, 0, 0, update_say_all),
};

/* ---- what was shown ---- */

/* Of what differs first. */
static uint32_t
shown_of_first(struct judgement *judgement)
{
    const struct check_evidence *evidence = judgement->evidence;
    struct pattern *pattern = &judgement->pattern;
    const struct check_item *first = judgement->first;
    uint32_t role = first->tensor.role;
    const struct check_rows *of = evidence->repeats[0] != NULL ? evidence->repeats[0] : evidence->ranked;
    const struct check_row *row = pattern_row(&evidence->ranked[first->first_rank], &first->tensor, first->first_step),
                           *again = pattern_row(&of[first->first_rank], &first->tensor, first->first_step),
                           *zero = pattern_row(&evidence->ranked[0], &first->tensor, 1);
    double factor;
    bool is_unsteady = row != NULL && again != NULL &&
                       fabs(row->norms.difference - again->norms.difference) > row->norms.difference / 10;
    bool starts = pattern->moment == items_moment(CHECK_PARAMETER, 1), is_gradient = role == CHECK_GRADIENT,
         is_first = is_gradient && pattern->moment == items_moment(CHECK_GRADIENT, 1);
    if (pattern->ever[CHECK_PARAMETER] + pattern->ever[CHECK_GRADIENT] == 0 && role == CHECK_MEMORY &&
        pattern->memory == NULL)
        pattern->memory = first;
    return (first->unbounded ? SHOWN_UNBOUNDED : 0) | (is_unsteady ? SHOWN_UNSTEADY : 0) |
           (pattern->memory != NULL ? SHOWN_MEMORY : 0) | (starts ? SHOWN_START : 0) |
           (starts && zero != NULL && zero->norms.difference <= evidence->tolerance * zero->norms.reference
                ? SHOWN_RANK_0_RIGHT
                : 0) |
           (is_first ? SHOWN_FIRST : 0) | (is_gradient ? SHOWN_GRADIENT : 0) |
           (is_gradient || role == CHECK_BUFFER || role == CHECK_MEAN ? SHOWN_RESULT : 0) |
           (pattern_is_few(pattern->differing[role], pattern->all[role]) ? SHOWN_FEW : 0) |
           (is_gradient && pattern->all[role] > pattern->differing[role] ? SHOWN_SOME : 0) |
           (is_first && pattern_is_scaled(evidence, &factor) ? SHOWN_SCALED : 0) |
           (pattern_uneven_items(evidence, first->first_step) > 0 ? SHOWN_UNEVEN : 0);
}

static uint32_t
shown_in_all(const struct judgement *judgement)
{
    const struct check_evidence *evidence = judgement->evidence;
    const struct pattern *pattern = &judgement->pattern;
    double repeated = pattern_worst(evidence, judgement->verdict);
    bool is_compared = evidence->ranks > 0 && ALL(rows, evidence->ranked, evidence->ranks, /* something trained */
                                                  check_rows_next_of(rows, CHECK_PARAMETER, NULL) != NULL ||
                                                      check_rows_next_of(rows, CHECK_GRADIENT, NULL) != NULL);
    bool apart =
        judgement->agreement.moment != 0 && (pattern->moment == 0 || judgement->agreement.moment < pattern->moment);
    bool stopped = evidence->stopped[0] != '\0' &&
                   !differs_before_stop(evidence, apart ? judgement->agreement.moment : pattern->moment);
    return (repeated > fmax(unrepeatable, evidence->tolerance) ? SHOWN_UNREPEATED : 0) |
           (!is_compared ? SHOWN_NOTHING : 0) | (stopped ? SHOWN_STOP : 0) | (apart ? SHOWN_RANKS : 0) |
           (find_alarm(evidence) != NULL ? SHOWN_ALARM : 0) | (check_evidence_in_rounds(evidence) ? SHOWN_ROUNDS : 0) |
           (pattern->moment != 0 ? SHOWN_DIFFERENCE : 0) |
           (pattern->moment != 0 && evidence->plain != NULL && pattern_is_right(evidence, evidence->plain)
                ? SHOWN_PLAIN_RIGHT
                : 0) |
           (evidence->by_plan ? SHOWN_PLAN : 0) | (check_evidence_weighs(evidence) ? SHOWN_WEIGHS : 0) |
           (pattern_has_one_batch(evidence) ? SHOWN_ONE_BATCH : 0) |
           (!check_evidence_takes_turns(evidence) && pattern_takes_whole_batches(evidence) ? SHOWN_WHOLE : 0);
}

/* Whether a further run of the ranks would tell whether they repeat what they do. */
static bool
wishes_again(const struct judgement *judgement, bool overlaps)
{
    const struct check_evidence *evidence = judgement->evidence;
    const struct check_verdict *verdict = judgement->verdict;
    if (verdict->cause == CAUSE_RANKS)
        return agreement_wants_repeat(evidence, &judgement->agreement);
    bool is_of_gradients = verdict->result == CHECK_DIFFERENT && (judgement->shown & SHOWN_GRADIENT) != 0;
    return evidence->repeats[0] == NULL && overlaps && is_of_gradients;
}

static void
judge(struct judgement *judgement)
{
    for (judgement->row = table;; ++judgement->row) {
        const struct verdict_row *row = judgement->row;
        if ((judgement->shown & row->needs) == row->needs && (judgement->shown & row->excludes) == 0 &&
            row->say(judgement))
            return;
    }
}

void
check_judge(const struct check_evidence *given, struct check_verdict *verdict, struct check_wishes *wishes)
{
    struct check_evidence settled = *given;
    const struct check_evidence *evidence = &settled;
    struct judgement judgement = {.evidence = evidence, .verdict = verdict, .wishes = wishes};
    double tolerance = items_tolerance(narrowest_type(given));
    settled.is_asked = given->tolerance >= 0;
    if (!settled.is_asked)
        settled.tolerance = tolerance;
    settled.bearable = ITEMS_BEARABLE * tolerance;
    *verdict =
        (struct check_verdict){.result = CHECK_EQUAL, .tolerance = evidence->tolerance, .bearable = evidence->bearable};
    *wishes = (struct check_wishes){.plain = false};
    verdict->items = items_make(evidence, evidence->ranked, &verdict->item_count);
    items_sort(verdict->items, verdict->item_count);
    reductions_settle(evidence, verdict);
    judgement.pattern = pattern_find(evidence, verdict);
    equal_settle_factor(evidence, verdict, &judgement.pattern);
    find_largest(evidence, verdict);
    judgement.agreement = agreement_find(evidence);
    judgement.first = judgement.pattern.first;
    judgement.shown = shown_in_all(&judgement) | (judgement.first != NULL ? shown_of_first(&judgement) : 0);
    wishes->probe = evidence->probe.count == 0 && evidence->steps > 1 &&
                    ANY(item, verdict->items, verdict->item_count, item->tensor.role == CHECK_MEMORY && item->differs);
    bool overlaps = judgement.first != NULL && (judgement.shown & SHOWN_ROUNDS) == 0 &&
                    evidence->overlapped_steps > 0 && evidence->plain == NULL;
    wishes->plain = overlaps && (judgement.shown & SHOWN_FIRST) == 0; /* of which no average begins during backward */
    judge(&judgement);
    reductions_judge_besides(evidence, verdict);
    if (evidence->stopped[0] != '\0' && (judgement.shown & SHOWN_STOP) == 0)
        printable_append(verdict->text, sizeof(verdict->text),
                         "; in a later step ddprun ended the run, perhaps because of this: %.400s", evidence->stopped);
    if (verdict->result != CHECK_DIFFERENT)
        wishes->plain = false;
    wishes->again = wishes_again(&judgement, overlaps);
    const struct check_item *first = judgement.pattern.first;
    /* Rounding may decide something late, where what is first is wrong in all steps; or a gradient nearly cancels. */
    bool is_late = first != NULL && first->first_step >= LATE &&
                   (verdict->cause == CAUSE_UPDATE || verdict->cause == CAUSE_TENSOR);
    wishes->nudged = verdict->result != CHECK_EQUAL && first != NULL && check_evidence_is_forced(evidence) &&
                     first->tensor.role == CHECK_GRADIENT && !first->unbounded && evidence->nudged_runs < MOST_NUDGED &&
                     (is_late || first->typical <= evidence->bearable);
    carried_judge(evidence, verdict, wishes);
    if (verdict->cause == CAUSE_NOT_REPEATABLE && evidence->readings != 0)
        sentence_add_readings(evidence, verdict);
}

void
check_verdict_free(struct check_verdict *verdict)
{
    free(verdict->items);
    *verdict = (struct check_verdict){.result = CHECK_EQUAL};
}
