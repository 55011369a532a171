/* runs.c - see rows.h: what runs say of themselves, before any tensor is read for its cause. */
#include "tools/check/verdict/rows.h"

/* ---- programs that do not repeat themselves ---- */

static const char fixed_seed[] =
    "give the program a fixed seed (not the clock, not std::random_device), for the check at least; or look for a "
    "race: "
    "a cudaMemset or a copy on another stream than the kernels that use its memory, and no wait between them";

/* Rows "a program that does not repeat itself", "ranks that do not repeat their difference": the advice, asked when one
 * of them decides. */
static void
advise_fixed_seed(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say(text, "%s", fixed_seed);
    seeded_add_readings(facts, text);
}

/* Whether the row "a program that does not repeat itself" applies. */
static bool
is_unrepeated(const struct check_facts *facts)
{
    return facts->is_unrepeated;
}

/* Row "a program that does not repeat itself": its sentence, asked when the row decides. */
static void
say_unrepeated(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say(text, "runs of the program in one process differ by %.2g in %u steps%s", facts->unrepeated,
                 facts->steps, facts->readings != 0 ? ", and the program reads " : "");
    if (facts->readings != 0)
        printable_append(text, VERDICT_BYTES, "%s: %s", seeded_source(facts), facts->reading_places);
}

/* Whether the row "ranks that do not repeat their difference" applies. */
static bool
is_unsteady(const struct check_facts *facts)
{
    return facts->first.item != NULL && facts->first.is_unsteady;
}

/* Row "ranks that do not repeat their difference": its sentence, asked when the row decides. */
static void
say_unsteady(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say_place(facts, facts->first.item, text, ", and in a second run of the ranks by another amount");
}

/* ---- proofs of a plan, which come before all other runs ---- */

static bool
is_refuted(const struct check_facts *facts)
{
    return facts->refuted != NULL;
}

static void
say_refuted(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say(text, "%.1000s", facts->refuted);
}

/* Nothing differs: but ranks and the one process take steps where the plan does. */
static bool
is_unproved(const struct check_facts *facts)
{
    return facts->unproved != NULL && facts->first.item == NULL;
}

static void
say_unproved(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say(text, "%.1000s", facts->unproved);
}

/* ---- how the runs ended ---- */

/* Whether the row "a run that ddprun ended" applies. */
static bool
is_stopped(const struct check_facts *facts)
{
    return facts->is_stopped_first && facts->common_end == 0;
}

/* Row "a run that ddprun ended": its sentence, asked when the row decides. */
static void
say_stopped(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say(text, "ddprun ended the run of %d ranks: %.900s", facts->ranks, facts->stopped);
}

/* Row "a run that ddprun ended": its advice, asked when the row decides. */
static void
advise_stopped(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    if (strstr(facts->stopped, "without taking part") != NULL)
        sentence_say(text,
                     "each rank must train: look for an exit that depends on the rank, or on what it finds there, "
                     "such as a file");
    else if (strstr(facts->stopped, "step different groups") != NULL)
        sentence_say(text, "decide how often a group is trained by averaged values (DDP_MEAN), not by the rank's own "
                           "loss or number");
    else if (strstr(facts->stopped, "same ddprun calls") != NULL)
        sentence_say(text,
                     "each rank must make these calls, in the same order: look for one that only some ranks reach, as "
                     "behind if (DDP_RANK() == 0), or for a loop whose length depends on the rank");
}

/* Whether the row "all ranks end, and one process continues" applies. */
static bool
end_early(const struct check_facts *facts)
{
    return facts->is_stopped_first && facts->common_end != 0;
}

/* Row "all ranks end, and one process continues": its sentence, asked when the row decides. */
static void
say_end_early(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say(text, "all %d ranks end by themselves after step %u, and one process continues to step %u",
                 facts->ranks, facts->common_end, facts->steps);
}

/* Row "all ranks end, and one process continues": its advice, asked when the row decides. */
static void
advise_end_early(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    const unsigned ranks = (unsigned)facts->ranks;
    const bool is_divided = (facts->common_end + 1) * ranks > facts->steps;
    sentence_say(text, "%s",
                 is_divided
                     ? "do not divide the number of steps by DDP_WORLD_SIZE(): DDP_SHARD divides each batch, so N "
                       "ranks make as many steps as one process"
                     : "the program ends by a number that the ranks compute otherwise than one process: divide "
                       "what DDP_REDUCE adds up by the items of all ranks, not of the share, or average the "
                       "number by DDP_MEAN");
}

/* Whether the row "one process ends, and a rank continues" applies. */
static bool
continues(const struct check_facts *facts)
{
    return facts->continues >= 0 && !facts->by_plan && !facts->in_rounds && facts->first.item == NULL;
}

/* Row "one process ends, and a rank continues": its sentence, asked when the row decides. */
static void
say_continues(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say(text, "one process ends after %u steps, but rank %d continues", facts->steps, facts->continues);
}

/* Whether the row "updates without DDP_STEP" applies. */
static bool
updates_without_step(const struct check_facts *facts)
{
    return facts->after != NULL && !facts->takes_turns && !continues(facts) && facts->first.item == NULL;
}

/* Row "updates without DDP_STEP": its sentence, asked when the row decides. */
static void
say_updates_without_step(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say(
        text,
        "after step %u, the last DDP_STEP, %s, is updated again and again: each rank trains by its own gradients "
        "then, and these updates were not compared",
        facts->steps, TENSOR_NAME(facts->after));
}

/* Whether the engine has seen what would have ended the job. What the ranks' parameters have come to by updates
 * without DDP_STEP is an alarm, too. */
static bool
is_alarmed(const struct check_facts *facts)
{
    return facts->alarm != NULL && facts->first.item == NULL && !updates_without_step(facts);
}

/* Row "what would have ended the job": its sentence, asked when the row decides. */
static void
say_alarm(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say(text, "%.1000s", facts->alarm);
}

/* ---- what was compared ---- */

/* Whether the row "nothing was compared" applies. */
static bool
is_nothing_compared(const struct check_facts *facts)
{
    return !facts->is_compared && !facts->in_rounds && !facts->is_stopped_first;
}

/* Row "nothing was compared": its sentence, asked when the row decides. */
static void
say_nothing(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    (void)facts;
    sentence_say(text, "no parameter and no gradient of a rank was compared with one process's");
}

/* Whether the row "parameters that are not finite in one process" applies. A plan that cannot be proved may be why they
 * are not finite. */
static bool
is_endless(const struct check_facts *facts)
{
    if (facts->unproved != NULL)
        return false;
    bool is_finite_alone = facts->first.item != NULL && facts->first.item->unbounded;
    return facts->endless != NULL && !facts->is_stopped_first && !is_finite_alone && !is_nothing_compared(facts);
}

/* Row "parameters that are not finite in one process": its sentence, asked when the row decides. */
static void
say_endless(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say(text, "after step %u %s, is infinite or NaN in one process, too: NaN on all ranks proves nothing",
                 facts->endless_step, TENSOR_NAME(facts->endless));
}

/* Row "parameters that are not finite in one process": its advice, asked when the row decides. */
static void
advise_endless(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    if (facts->endless_step > 1)
        sentence_say(text, "check the steps before it (--steps %u); one process must train without NaN first",
                     facts->endless_step - 1);
    else
        sentence_say(text, "one process must train without NaN first");
}

/* ---- overlap, and plans ---- */

/* Whether the row "overlap" applies. */
static bool
is_made_by_overlap(const struct check_facts *facts)
{
    return facts->is_right_without_overlap;
}

/* Row "overlap": its sentence, asked when the row decides. */
static void
say_overlap(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say_place(facts, facts->first.item, text, ", and does not with --no-overlap");
}

/* Row "overlap": its advice, asked when the row decides. */
static void
advise_overlap(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say(text, "%s",
                 facts->alarm != NULL ? facts->alarm
                                      : "averaging during backward must not change results: this is a fault of ddprun, "
                                        "please report it, and run with --no-overlap until it is corrected");
}

/* Whether ranks that play a plan differ: they get no share of a batch, and the program has no annotations. */
static bool
is_made_by_plan(const struct check_facts *facts)
{
    return facts->by_plan && facts->first.item != NULL;
}

/* Row "a plan": its sentence, asked when the row decides. */
static void
say_first(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say_place(facts, facts->first.item, text, "%s", "");
}

/* ---- infinities ---- */

/* Whether the row "infinities on the ranks alone" applies. */
static bool
is_unbounded(const struct check_facts *facts)
{
    return facts->first.item != NULL && facts->first.item->unbounded;
}

/* Row "infinities on the ranks alone": its sentence, asked when the row decides. */
static void
say_unbounded(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say_place(facts, facts->first.item, text, ": %s",
                       facts->first.item->endless ? "other elements are infinite or NaN than in one process"
                                                  : "elements are infinite or NaN, and finite in one process");
}

/* Row "infinities on the ranks alone": its advice, asked when the row decides. */
static void
advise_unbounded(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    if (facts->is_compressed)
        sentence_say(text, "16 bits do not hold these gradients: use --compress bf16, or none");
    else if (!facts->first.is_gradient)
        sentence_say(text, "search for infinities, as a loss scaler does, after DDP_STEP");
    else
        sentence_say(text, "look for a sum over ranks that does not fit its type, or for a share without items");
}

static const char another_plan[] =
    "do not train by this plan: ranks that take turns do not compute the program's results; make the plan again by "
    "ddprun scout --prove with these arguments, and check it";

const struct verdict_row verdict_rows_of_runs[] = {
    {.name = "a plan that a proof refuses",
     .stage = STAGE_PROVED,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_PLAN,
     .applies = is_refuted,
     .say = say_refuted,
     .advice = another_plan},
    {.name = "a plan that cannot be proved",
     .stage = STAGE_UNPROVED,
     .result = CHECK_NOT_COMPARABLE,
     .cause = CAUSE_PLAN,
     .applies = is_unproved,
     .say = say_unproved,
     .advice = "give the program more steps, or make the plan again by ddprun scout --prove with these arguments; "
               "--unproved compares without this proof"},
    {.name = "a program that does not repeat itself",
     .stage = STAGE_REPEATED,
     .result = CHECK_NOT_COMPARABLE,
     .cause = CAUSE_NOT_REPEATABLE,
     .applies = is_unrepeated,
     .say = say_unrepeated,
     .advise = advise_fixed_seed},
    {.name = "a run that ddprun ended",
     .stage = STAGE_COMPARED,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_STOPPED,
     .applies = is_stopped,
     .about = verdict_about_first,
     .say = say_stopped,
     .advise = advise_stopped},
    {.name = "all ranks end, and one process continues",
     .stage = STAGE_COMPARED,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_STOPPED,
     .applies = end_early,
     .about = verdict_about_first,
     .say = say_end_early,
     .advise = advise_end_early},
    {.name = "nothing was compared",
     .stage = STAGE_COMPARED,
     .result = CHECK_NOT_COMPARABLE,
     .cause = CAUSE_NOTHING,
     .applies = is_nothing_compared,
     .say = say_nothing,
     .advice = "annotate parameters and gradients (man ddprun.h)"},
    {.name = "parameters that are not finite in one process",
     .stage = STAGE_COMPARED,
     .result = CHECK_NOT_COMPARABLE,
     .cause = CAUSE_ENDLESS,
     .applies = is_endless,
     .say = say_endless,
     .advise = advise_endless},
    {.name = "what would have ended the job",
     .stage = STAGE_ALARMED,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_STOPPED,
     .applies = is_alarmed,
     .say = say_alarm},
    {.name = "one process ends, and a rank continues",
     .stage = STAGE_CONTINUES,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_STOPPED,
     .applies = continues,
     .say = say_continues,
     .advice =
         "count the items of the whole batch, not of the rank's share; stop by a loss that DDP_MEAN has averaged, "
         "not by a rank's own loss"},
    {.name = "updates without DDP_STEP",
     .stage = STAGE_ALARMED,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_UPDATE,
     .applies = updates_without_step,
     .say = say_updates_without_step,
     .advice = "call DDP_STEP between backward and each update: also after a checkpoint is read, in a second training "
               "or another branch of the program"},
    {.name = "ranks that do not repeat their difference",
     .stage = STAGE_UNSTEADY,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_NOT_REPEATABLE,
     .applies = is_unsteady,
     .about = verdict_about_first,
     .say = say_unsteady,
     .advise = advise_fixed_seed},
    {.name = "overlap",
     .stage = STAGE_OVERLAP,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_OVERLAP,
     .applies = is_made_by_overlap,
     .about = verdict_about_first,
     .say = say_overlap,
     .advise = advise_overlap},
    {.name = "a plan",
     .stage = STAGE_PLAN,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_PLAN,
     .applies = is_made_by_plan,
     .about = verdict_about_first,
     .say = say_first,
     .advice = another_plan},
    {.name = "infinities on the ranks alone",
     .stage = STAGE_UNBOUNDED,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_OVERFLOW,
     .applies = is_unbounded,
     .about = verdict_about_first,
     .say = say_unbounded,
     .advise = advise_unbounded},
    {.name = NULL},
};
