/*
 * course.c - how far the recording is: light, until the operations repeat; deep, for some periods; over.
 *
 * An operation is like one a period before if it does the same on the same memory. Memory that no kernel has written is
 * only a size: a program with 20 batches in 20 allocations has the period of its step. Which memory that is shows when
 * all of it is hashed now and then. A place that is new in each period (a history of losses) is like another one that
 * was new as many operations ago. A period has a launch that works where it worked a period before: the
 * initialisation of one layer after the other is none. Where nothing repeats so, a second look passes over where in an
 * allocation copies from the host go, as that may depend on data; a third one over grids and bytes, which differ with
 * the batches; then all of these leave out copies to the host that differ (varying.c). These want more periods that are
 * alike.
 *
 * A period that is left again in the deep pass (an evaluation, the end of an epoch) sends the recording back to the
 * light pass; one that is left repeatedly is too short. One in which nothing feeds back, as the launcher finds in what
 * was recorded, is a loop inside a step, or in front of the first one: the recording goes on with another one.
 */
#include "tools/scout/trainer/briefs.h"

#include <time.h>
#include <unistd.h>
#include <xxhash.h>

enum {
    FIRST_SEARCH = 8,
    LEAST_PERIOD = 2,
    ALIKE = 3, /* periods */
    ALIKE_BUT_FOR_PLACES = 8,
    ALIKE_BUT_FOR_SIZES = 8,
    MOST_LEFT = 2,
    MOST_RESUMED = 4,
    MOST_REFUSED = 64,
    MOST_FURTHER_PERIODS = 12,
    MOST_FURTHER = 50000, /* operations after the first period that was none of a step */
    PATIENCE_MS = 60000   /* with the launcher */
};

static _Atomic int now = COURSE_LIGHT;
static _Atomic bool closed; /* the log has its end */
static size_t next_search = FIRST_SEARCH;
static size_t period, deep_begin, deep_wanted; /* deep_wanted: operations */
static unsigned further_count;                 /* periods that were recorded because earlier ones disagreed */
static size_t least_period = LEAST_PERIOD;
static unsigned left_count;

/* A period that was recorded and then left, as where a program prints its loss: the deep pass begins again when the
 * operation comes that was expected. `resume_from`: what that one is like; `resume_period` 0: none is expected.
 * `first_like`: what the first operation of the deep pass is like. */
static size_t resume_from, resume_period, first_like;
static unsigned resumed_count;
static enum likeness resume_likeness; /* `likeness` of that period */
static bool is_resumed;               /* the deep pass: one that is left at once says nothing of the period */

/* Periods that were none of a step: wherever they begin, these operations. */
static struct refused {
    size_t period;
    uint64_t sum;
} refused[MOST_REFUSED];
static size_t refused_count, give_up_at;

enum course
course_now(void)
{
    return (enum course)atomic_load_explicit(&now, memory_order_acquire);
}

uint64_t
course_turn(void)
{
    return period > 0 ? (brief_count - deep_begin) % period : 0;
}

uint64_t
course_round(void)
{
    return period > 0 ? (brief_count - deep_begin) / period : 0;
}

/* ---- what repeats ---- */

/* Whether a launch of the last period works where it worked in the one before. */
static bool
is_step(size_t lag)
{
    return ANY_NUMBER(i, brief_count - lag, brief_count,
                      briefs[i].computes &&
                          ANY_NUMBER(k, 0, briefs[i].count,
                                     briefs_are_same_place(&brief_arguments[briefs[i].first + k],
                                                           &brief_arguments[briefs[i - lag].first + k])));
}

/* A number that tells the last `lag` operations from others, whatever their order. */
static uint64_t
sum_of(size_t lag)
{
    uint64_t sum = 0;
    for (size_t i = brief_count - lag; i < brief_count; ++i)
        sum += briefs_what(&briefs[i]);
    return sum;
}

/* Whether it is one that was refused, or several of it. */
static bool
is_refused(size_t lag)
{
    uint64_t sum = sum_of(lag);
    return ANY_NUMBER(i, 0, refused_count,
                      lag % refused[i].period == 0 && sum == lag / refused[i].period * refused[i].sum);
}

/* Whether the last periods are alike, so many. */
static bool
repeats(size_t lag, size_t many)
{
    return ALL_NUMBERS(back, 0, (many - 1) * lag, briefs_are_alike(brief_count - 1 - back, lag));
}

/* The shortest period of which the last ones are alike, so many; 0: there is none. One operation is a step where there
 * is no other. */
static size_t
find_alike(size_t many)
{
    size_t lag = least_period;
    while (many * lag <= brief_count && !(repeats(lag, many) && is_step(lag) && !is_refused(lag)))
        ++lag;
    if (many * lag > brief_count)
        return 0;
    return lag == LEAST_PERIOD && repeats(1, lag * many) ? 1 : lag;
}

/* The length, in operations, of the period that the last operations repeat; 0: none. Looks for exact repetition first,
 * then without places, then without sizes; briefs_likeness says which was found. */
static size_t
find_period(void)
{
    static const size_t periods[] = {[LIKE_IN_ALL] = ALIKE,
                                     [LIKE_BUT_FOR_PLACES] = ALIKE_BUT_FOR_PLACES,
                                     [LIKE_BUT_FOR_SIZES] = ALIKE_BUT_FOR_SIZES};
    size_t found = 0;
    for (unsigned i = LIKE_IN_ALL; i <= LIKE_BUT_FOR_SIZES && found == 0; ++i) {
        briefs_likeness = (enum likeness)i;
        found = find_alike(periods[i]);
    }
    return found;
}

/* As find_period(), of the operations without those copies to the host that differ from step to step; 0: these do
 * not repeat either. */
static size_t
find_without_varying(void)
{
    const size_t before = brief_count, least_before = least_period;
    if (!varying_narrow())
        return 0;
    least_period = LEAST_PERIOD; /* with these copies periods were longer */
    size_t found = find_period();
    varying_settle(found > 0);
    if (found == 0) {
        least_period = least_before;
        return 0;
    }
    resume_period = 0;
    give_up_at -= give_up_at != 0 ? before - brief_count : 0;
    next_search = brief_count + 1;
    return found;
}

void
course_note_copy(const struct scout_op *op)
{
    bool writes = op->kind == SCOUT_COPY || op->kind == SCOUT_FILL;
    struct allocation *allocation = writes ? allocations_numbered(op->to.alloc) : NULL;
    if (allocation != NULL)
        allocation->host_wrote = true, allocation->left_known = false;
}

/* ---- the passes ---- */

/* What the images of an operation take of main memory. */
static uint64_t
room_wanted(const struct brief *brief)
{
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < brief->count && brief->computes; ++k) {
        const struct brief_argument *argument = &brief_arguments[brief->first + k];
        const struct allocation *allocation = allocations_numbered(argument->alloc);
        bool again = ANY_NUMBER(i, 0, k, brief_arguments[brief->first + i].alloc == argument->alloc);
        bytes += again || allocation == NULL ? 0 : images_bytes(allocation);
    }
    return bytes;
}

/* Ends the program if the images of a launch have no room. */
static void
require_room(void)
{
    const uint64_t available = room_available("");
    uint64_t most = 0;
    FOR_EACH(brief, &briefs[brief_count - period], period) {
        uint64_t wanted = room_wanted(brief);
        most = wanted > most ? wanted : most;
    }
    if (most > available)
        scout_stop("scout copies each launch's memory, and needs up to %llu MiB of main memory for it; %llu MiB are "
                   "available: scout a smaller model (the same code with fewer units), or raise the limit of memory",
                   (unsigned long long)(most >> 20), (unsigned long long)(available >> 20));
}

/* `like`: the operation that the next one is to be like. */
static void
begin_deep(size_t like, bool resumes)
{
    struct scout_progress *progress = scout_state.progress;
    first_like = like;
    is_resumed = resumes;
    resume_period = 0;
    require_room();
    atomic_store(&progress->period, period);
    atomic_store(&progress->deep, 0);
    deep_wanted = period * scout_state.settings.periods;
    atomic_store(&progress->wanted, deep_wanted);
    atomic_store(&progress->stage, SCOUT_STAGE_DEEP);
    deep_begin = brief_count;
    atomic_store_explicit(&now, COURSE_DEEP, memory_order_release);
}

/* Launches of the light pass change managed memory, too: that is no write of the host. */
static void
back_to_light(void)
{
    size_t count;
    struct allocation **all = allocations_all(&count);
    for (size_t i = 0; i < count; ++i)
        all[i]->left_known = false;
    next_search = brief_count + 1;
    atomic_store(&scout_state.progress->period, 0);
    atomic_store(&scout_state.progress->stage, SCOUT_STAGE_LIGHT);
    atomic_store_explicit(&now, COURSE_LIGHT, memory_order_release);
}

bool
course_has_other_numbers(const struct noted *noted)
{
    return noted->lengths != briefs[brief_count - period].lengths;
}

/* The last operation is no part of the period. */
static void
leave_deep(void)
{
    if (brief_count - 1 - deep_begin < period && !is_resumed && ++left_count >= MOST_LEFT) {
        least_period = period + 1;
        left_count = 0;
    } else if (resumed_count < MOST_RESUMED) {
        ++resumed_count;
        resume_period = period;
        resume_likeness = briefs_likeness;
        resume_from = brief_count - 1 - period;
    }
    back_to_light();
}

static struct scout_op failed; /* the first launch that did */

void
course_note_failure(const struct scout_op *op)
{
    if (op->kind == SCOUT_LAUNCH && failed.kind == 0)
        failed = (struct scout_op){.kind = SCOUT_LAUNCH, .name = op->name, .site = op->site};
}

/* Writes an operation to the log after those of the deep pass, without an effect; `why`: number of the text that says
 * why it has none. */
static void
put_behind(const struct scout_op *op, uint32_t why)
{
    const struct scout_effect effect = {.why = why, .hidden_write = SCOUT_NONE};
    (void)scout_writer_put(&scout_state.log, SCOUT_OP, op);
    (void)scout_writer_put(&scout_state.log, SCOUT_EFFECT, &effect);
}

/* Behind all operations, as where and when is not known: for managed memory that the host has written a copy of no
 * bytes, and a launch that failed. Returns whether there is any. */
static bool
put_shared(void)
{
    bool is_any = failed.kind != 0;
    struct scout_op copy = {.kind = SCOUT_COPY, .site = SCOUT_NONE, .from = {.alloc = SCOUT_NONE}, .rows = 1};
    size_t count;
    struct allocation **all = allocations_all(&count);
    if (failed.kind != 0)
        put_behind(&failed, names_put(SCOUT_FAILED));
    for (size_t i = 0; i < count; ++i) {
        if (!all[i]->is_shared)
            continue;
        copy.name = names_put("the host");
        copy.to.alloc = all[i]->number;
        put_behind(&copy, SCOUT_NONE);
        is_any = true;
    }
    return is_any;
}

void
course_close_log(void)
{
    if (atomic_exchange(&closed, true))
        return;
    if (course_now() == COURSE_LIGHT)
        varying_tell();
    host_put_calls();
    host_note_readings();
    names_put_objects();
    (void)scout_writer_put(&scout_state.log, SCOUT_END, "");
    if (!scout_writer_close(&scout_state.log))
        scout_stop("cannot write what ddprun scout records: %s; make room there, or set TMPDIR",
                   strerror(scout_state.log.error));
}

/* The trainer continues by itself, or ends here without what exit() calls. */
static void
end_deep(void)
{
    course_close_log();
    atomic_store_explicit(&now, COURSE_OVER, memory_order_release);
    atomic_store(&scout_state.progress->stage, SCOUT_STAGE_OVER);
    copies_free();
    if (scout_state.settings.goes_on)
        return;
    atomic_store(&scout_state.status->stage, RANK_STAGE_ENDED);
    _exit(0);
}

/* What the launcher finds in what was recorded, if it answers. */
static enum scout_answer
ask_launcher(void)
{
    struct scout_progress *progress = scout_state.progress;
    uint32_t asked = atomic_fetch_add(&progress->asked, 1) + 1;
    for (int ms = 0; ms < PATIENCE_MS && atomic_load(&progress->answered) != asked; ++ms)
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    bool is_answered = atomic_load(&progress->answered) == asked;
    return is_answered ? (enum scout_answer)atomic_load(&progress->answer) : SCOUT_ANSWER_STEP;
}

/* The period of the deep pass does not repeat after all: it is not tried again, and the light pass goes on. */
static void
refuse_period(void)
{
    refused[refused_count++] = (struct refused){period, sum_of(period)};
    if (give_up_at == 0)
        give_up_at = brief_count + MOST_FURTHER;
    back_to_light();
}

/* So many periods were recorded as were asked for. Where these disagree, as one does whose gradients have overflowed
 * and that updates nothing, further ones may agree. */
static void
judge_deep(void)
{
    const bool is_interrupted = put_shared(); /* what comes after it in the log is no further period of the same */
    enum scout_answer answer = refused_count == MOST_REFUSED ? SCOUT_ANSWER_STEP : ask_launcher();
    if (answer == SCOUT_ANSWER_NO_STEP) {
        refuse_period();
        return;
    }
    if (answer == SCOUT_ANSWER_STEP || is_interrupted || further_count == MOST_FURTHER_PERIODS) {
        end_deep();
        return;
    }
    ++further_count;
    deep_wanted += period;
    atomic_store(&scout_state.progress->wanted, deep_wanted);
}

bool
course_is_to_wait(void)
{
    return course_now() == COURSE_DEEP || (course_now() == COURSE_LIGHT && brief_count + 1 >= next_search);
}

/* After an operation of the deep pass: whether it is like the one of the period before, and whether it was the last. */
static void
note_deep(void)
{
    size_t done = brief_count - deep_begin; /* operations of the pass */
    atomic_store(&scout_state.progress->deep, done);
    /* Of the first period that was elsewhere, if the pass was resumed. */
    size_t lag = done < period ? deep_begin - first_like : period;
    if (!briefs_are_alike(brief_count - 1, lag))
        leave_deep();
    else if (done >= deep_wanted)
        judge_deep();
}

/* After an operation of the light pass at which the device may be waited for: begins the deep pass where the last
 * operations repeat; this is looked for more and more rarely. */
static void
search_period(void)
{
    if (brief_count < next_search)
        return;
    next_search = brief_count + brief_count / 8 + 1;
    briefs_compare_memory();
    period = find_period();
    if (period == 0)
        period = find_without_varying();
    if (period > 0)
        begin_deep(brief_count - period, false);
}

void
course_note(const struct noted *noted, bool may_wait)
{
    atomic_store(&scout_state.progress->operations, scout_state.operation_count);
    if (scout_state.settings.ends_after > 0) {
        if (scout_state.operation_count >= scout_state.settings.ends_after)
            end_deep();
        return;
    }
    briefs_add(noted);
    if (course_now() == COURSE_DEEP) {
        note_deep();
        return;
    }
    if (give_up_at != 0 && brief_count >= give_up_at) {
        end_deep();
        return;
    }
    const bool resumes = resume_period > 0, is_free = may_wait && !captures_are_open();
    briefs_likeness = resumes ? resume_likeness : briefs_likeness;
    if (resumes && is_free && briefs_are_alike(brief_count - 1, brief_count - 1 - resume_from)) {
        period = resume_period;
        begin_deep(resume_from + 1, true);
        return;
    }
    if (is_free)
        search_period();
}
