/*
 * course.c - how far the recording is: light, until the operations repeat; deep, for some periods; over.
 *
 * An operation is like one a period before if it does the same on the same memory. Memory that no kernel has written is
 * only a size: a program with 20 batches in 20 allocations has the period of its step. Which memory that is shows when
 * all of it is hashed now and then. A place that is new in each period (a history of losses) is like another one that
 * was new as many operations ago. A period has a launch that works where it worked a period before: the
 * initialisation of one layer after the other is none. Where nothing repeats so, a second look passes over where in an
 * allocation copies from the host go, as that may depend on data; a third one over grids and bytes, which differ with
 * the batches. Both want more periods that are alike.
 *
 * A period that is left again in the deep pass (an evaluation, the end of an epoch) sends the recording back to the
 * light pass; one that is left repeatedly is too short. One in which nothing feeds back, as the launcher finds in what
 * was recorded, is a loop inside a step, or in front of the first one: the recording goes on with another one.
 */
#include "tools/scout/trainer/scout.h"

#include <search.h>
#include <stdio.h>
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
    MOST_FURTHER = 50000, /* operations after the first period that was none of a step */
    PATIENCE_MS = 60000,  /* with the launcher */
    LAUNCHES_COMPARED = 4096,
    STEPS_COMPARED = 16
};

struct brief_argument {
    uint64_t name, bytes, offset;
    uint32_t alloc, slot;
    uint32_t begun; /* the operation that was the first one here, */
    uint32_t met;   /* or the first one that got this allocation */
};

/* An operation, as far as its likeness to others goes. */
struct brief {
    uint64_t what;     /* hash of all but its arguments */
    uint64_t any_size; /* the same, without grids and bytes */
    uint64_t lengths;  /* as struct noted's */
    uint32_t first, count;
    uint32_t site;
    const char *words; /* for readers: many of them */
    bool computes;     /* a launch */
    bool is_loaded;    /* a copy from the host */
};

/* Where operations were, and since when: a tree of search.h. */
struct place {
    uint64_t name, offset;
    uint32_t begun;
};

static struct brief *briefs;
static size_t brief_count;
static struct brief_argument *arguments;
static size_t argument_count;
static bool *written; /* by number of an allocation: a kernel changed it */
static uint32_t written_count;
static unsigned looks;

static _Atomic int now = COURSE_LIGHT;
static _Atomic bool closed; /* the log has its end */
/* What is passed over where operations are compared. */
static enum likeness { LIKE_IN_ALL, LIKE_BUT_FOR_PLACES, LIKE_BUT_FOR_SIZES } likeness;
static size_t next_search = FIRST_SEARCH;
static size_t period, deep_begin;
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

COMPARES(compare_places, struct place, COMPARE(a, b, name, COMPARE(a, b, offset, 0)))

/* The operation that was the first one in a place; this one, if none was there before. */
static uint32_t
place_begun(uint64_t name, uint64_t offset)
{
    static void *places;
    static struct place *added;
    added = added == NULL ? scout_zeroed(1, sizeof(*added)) : added;
    *added = (struct place){name, offset, (uint32_t)brief_count};
    struct place *const *found = tsearch(added, &places, compare_places);
    if (found == NULL)
        scout_stop("out of memory");
    added = *found == added ? NULL : added;
    return (*found)->begun;
}

static void
add_argument(uint32_t number, uint64_t offset, uint32_t slot)
{
    struct allocation *allocation = allocations_numbered(number);
    if (allocation == NULL)
        return;
    uint64_t name = allocations_name(allocation);
    allocation->met_at = allocation->met_at > 0 ? allocation->met_at : brief_count + 1;
    *SCOUT_GROWN(arguments, argument_count) = (struct brief_argument){
        name, allocation->bytes, offset, number, slot, place_begun(name, offset), (uint32_t)allocation->met_at - 1};
}

static const char *
words_of(const struct noted *noted)
{
    const struct scout_op *op = &noted->op;
    switch (op->kind) {
    case SCOUT_FILL:
        return "fills";
    case SCOUT_COPY:
        if (op->from.alloc == SCOUT_NONE)
            return "copies from the host";
        return op->to.alloc == SCOUT_NONE ? "copies to the host" : "copies on the device";
    default:
        return noted->text;
    }
}

static void
keep_noted(const struct noted *noted)
{
    const struct scout_op *op = &noted->op;
    struct brief brief = {.first = (uint32_t)argument_count,
                          .lengths = noted->lengths,
                          .site = op->site,
                          .words = words_of(noted),
                          .computes = op->kind == SCOUT_LAUNCH,
                          .is_loaded = op->kind == SCOUT_COPY && op->from.alloc == SCOUT_NONE};
    uint64_t what[] = {op->kind,     op->name,           op->kind == SCOUT_COPY ? op->from.alloc == SCOUT_NONE : 0,
                       op->block[0], op->block[1],       op->block[2],
                       op->grid[0],  op->grid[1],        op->grid[2],
                       op->bytes,    noted->named_count, op->rows};
    brief.what = XXH3_64bits(what, sizeof(what));
    brief.any_size = XXH3_64bits(what, 6 * sizeof(*what));
    FOR_EACH(argument, op->arguments, noted->named_count)
        add_argument(argument->alloc, argument->offset, argument->slot);
    if (op->kind == SCOUT_COPY || op->kind == SCOUT_FILL)
        add_argument(op->to.alloc, op->to.offset, 0);
    if (op->kind == SCOUT_COPY)
        add_argument(op->from.alloc, op->from.offset, 1);
    brief.count = (uint32_t)argument_count - brief.first;
    *SCOUT_GROWN(briefs, brief_count) = brief;
}

static bool
is_size(const struct brief_argument *argument)
{
    return looks > 1 && (argument->alloc >= written_count || !written[argument->alloc]);
}

static bool
is_same_place(const struct brief_argument *a, const struct brief_argument *b)
{
    return a->name == b->name && a->offset == b->offset;
}

/* A hash of what an operation does, as far as that counts. */
static uint64_t
what_counts(const struct brief *brief)
{
    return likeness == LIKE_BUT_FOR_SIZES ? brief->any_size : brief->what;
}

/* Whether operation i is like the one `lag` operations before. */
static bool
is_alike(size_t i, size_t lag)
{
    const struct brief *now_brief = &briefs[i], *then = &briefs[i - lag];
    bool sizes = likeness != LIKE_BUT_FOR_SIZES;
    if (what_counts(now_brief) != what_counts(then) || now_brief->count != then->count)
        return false;
    for (uint32_t k = 0; k < now_brief->count; ++k) {
        const struct brief_argument *a = &arguments[now_brief->first + k], *b = &arguments[then->first + k];
        bool both_new = i - a->begun < lag && i - a->begun == i - lag - b->begun;
        if (a->slot != b->slot)
            return false;
        if (!sizes && i - a->met < lag && i - a->met == i - lag - b->met)
            continue;
        if (likeness == LIKE_BUT_FOR_PLACES && now_brief->is_loaded && a->name == b->name)
            continue;
        if (is_size(a) != is_size(b) || (is_size(a) && sizes && a->bytes != b->bytes) ||
            (!is_size(a) && !is_same_place(a, b) && (!both_new || a->bytes != b->bytes)))
            return false;
    }
    return true;
}

/* Whether a launch of the last period works where it worked in the one before. */
static bool
is_step(size_t lag)
{
    return ANY_NUMBER(i, brief_count - lag, brief_count,
                      briefs[i].computes && ANY_NUMBER(k, 0, briefs[i].count,
                                                       is_same_place(&arguments[briefs[i].first + k],
                                                                     &arguments[briefs[i - lag].first + k])));
}

static uint64_t
sum_of(size_t lag)
{
    uint64_t sum = 0;
    for (size_t i = brief_count - lag; i < brief_count; ++i)
        sum += what_counts(&briefs[i]);
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
    return ALL_NUMBERS(back, 0, (many - 1) * lag, is_alike(brief_count - 1 - back, lag));
}

/* The shortest period of which the last ones are alike, so many; 0: there is none. One operation is a step where there
 * is no other. */
static size_t
find_alike(size_t many)
{
    size_t lag = least_period;
    while (many * lag <= brief_count && !(repeats(lag, many) && is_step(lag) && !is_refused(lag)))
        ++lag;
    return many * lag > brief_count ? 0 : lag == LEAST_PERIOD && repeats(1, lag * many) ? 1 : lag;
}

static size_t
find_period(void)
{
    static const size_t periods[] = {[LIKE_IN_ALL] = ALIKE,
                                     [LIKE_BUT_FOR_PLACES] = ALIKE_BUT_FOR_PLACES,
                                     [LIKE_BUT_FOR_SIZES] = ALIKE_BUT_FOR_SIZES};
    size_t found = 0;
    for (unsigned i = LIKE_IN_ALL; i <= LIKE_BUT_FOR_SIZES && found == 0; ++i) {
        likeness = (enum likeness)i;
        found = find_alike(periods[i]);
    }
    return found;
}

/* ---- which memory do kernels write? ---- */

/* Hashes all memory, and compares it with the last time. */
static void
compare_memory(void)
{
    size_t count;
    struct allocation **all = allocations_all(&count);
    scout_require(scout_state.driver.cuCtxSynchronize_p(), "cuCtxSynchronize");
    memory_hash(all, count, false);
    for (size_t i = 0; i < count; ++i) {
        while (all[i]->number >= written_count)
            (void)SCOUT_GROWN(written, written_count);
        if (all[i]->hash_known && all[i]->met != all[i]->hash && !all[i]->host_wrote)
            written[all[i]->number] = true;
        all[i]->hash = all[i]->met;
        all[i]->hash_known = true;
        all[i]->host_wrote = false;
    }
    ++looks;
}

void
course_note_copy(const struct scout_op *op)
{
    bool writes = op->kind == SCOUT_COPY || op->kind == SCOUT_FILL;
    struct allocation *allocation = writes ? allocations_numbered(op->to.alloc) : NULL;
    if (allocation != NULL)
        allocation->host_wrote = true, allocation->left_known = false;
    if (allocation != NULL && op->kind == SCOUT_COPY && op->from.alloc == SCOUT_NONE && op->rows == 1) {
        allocations_note_batch(allocation, op->to.offset, op->to.offset + op->bytes);
    }
}

/* ---- the passes ---- */

/* What the images of an operation take of main memory. */
static uint64_t
room_wanted(const struct brief *brief)
{
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < brief->count && brief->computes; ++k) {
        const struct brief_argument *argument = &arguments[brief->first + k];
        const struct allocation *allocation = allocations_numbered(argument->alloc);
        bool again = ANY_NUMBER(i, 0, k, arguments[brief->first + i].alloc == argument->alloc);
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
    atomic_store(&progress->wanted, period * scout_state.settings.periods);
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
course_note_batches(const struct noted *noted)
{
    const struct brief *then = &briefs[brief_count - period];
    bool chooses = noted->lengths != then->lengths;
    for (uint32_t k = 0; k < noted->named_count && k < then->count; ++k) {
        const struct brief_argument *was = &arguments[then->first + k];
        uint64_t offset = noted->arguments[k].offset;
        struct allocation *allocation = allocations_numbered(was->alloc);
        if (allocation == NULL || noted->arguments[k].alloc != was->alloc || offset <= was->offset)
            continue;
        allocations_note_batch(allocation, offset, 2 * offset - was->offset);
    }
    return chooses;
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
        resume_likeness = likeness;
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

static void
put_behind(const struct scout_op *op, uint32_t why)
{
    const struct scout_effect effect = {.why = why, .hidden_write = SCOUT_NONE};
    (void)scout_writer_put(&scout_state.log, SCOUT_OP, op);
    (void)scout_writer_put(&scout_state.log, SCOUT_EFFECT, &effect);
}

/* Behind all operations, as where and when is not known: for managed memory that the host has written a copy of no
 * bytes, and a launch that failed. */
static void
put_shared(void)
{
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
    }
}

/* ---- where nothing repeats: what differs ---- */

/* The last launches: in `list` by their operations, the newest first. */
static size_t
list_launches(size_t list[LAUNCHES_COMPARED])
{
    size_t count = 0;
    for (size_t i = brief_count; i-- > 0 && count < LAUNCHES_COMPARED;)
        if (briefs[i].computes)
            list[count++] = i;
    return count;
}

/* How many of the last launches are like the one `lag` launches before. */
static size_t
count_alike(const size_t *list, size_t count, size_t lag)
{
    size_t alike = 0;
    while (alike + lag < count && briefs[list[alike]].what == briefs[list[alike + lag]].what)
        ++alike;
    return alike;
}

/* After how many launches they repeat, if copies and fills are passed over, and how many do; 0: they do not. What
 * repeats in less than half of all operations may be a loop inside a step. */
static size_t
find_launches(const size_t *list, size_t count, size_t *alike_p)
{
    for (size_t lag = 1; ALIKE * lag <= count; ++lag) {
        *alike_p = count_alike(list, count, lag);
        if (*alike_p < (ALIKE - 1) * lag)
            continue;
        if (*alike_p + lag == count || list[*alike_p] < brief_count / 2)
            return lag;
    }
    return 0;
}

static void
tell_varying(enum scout_varies varies, const struct brief *brief)
{
    struct scout_progress *progress = scout_state.progress;
    snprintf(progress->varying, sizeof(progress->varying), "%s", brief->words);
    atomic_store(&progress->varying_site, brief->site);
    atomic_store(&progress->varies, varies);
}

/* Compares the operations after `a`, a launch, with those after `b`, the same a step before, up to the next launches.
 */
static bool
tell_difference(size_t a, size_t b)
{
    for (++a, ++b; a < brief_count; ++a, ++b) {
        const struct brief *one = &briefs[a], *other = &briefs[b];
        if (one->any_size != other->any_size || one->site != other->site) {
            tell_varying(SCOUT_VARIES_IN_NUMBER, one->computes ? other : one);
            return true;
        }
        if (one->what != other->what || one->count != other->count) {
            tell_varying(SCOUT_VARIES_IN_SIZE, one);
            return true;
        }
        if (!is_alike(a, a - b)) {
            tell_varying(SCOUT_VARIES_IN_PLACE, one);
            return true;
        }
        if (one->computes)
            break;
    }
    return false;
}

/* At the end of a program that repeated nothing, though its launches do. */
static void
look_for_varying(void)
{
    static size_t list[LAUNCHES_COMPARED];
    size_t alike, count = list_launches(list), lag = find_launches(list, count, &alike);
    likeness = LIKE_IN_ALL;
    for (size_t k = 1; lag > 0 && k < alike && k < STEPS_COMPARED * lag; ++k)
        if (tell_difference(list[k], list[k + lag]))
            return;
}

void
course_close_log(void)
{
    if (atomic_exchange(&closed, true))
        return;
    if (course_now() == COURSE_LIGHT)
        look_for_varying();
    host_put_calls();
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

/* Whether what was recorded is a step, as far as the launcher answers. */
static bool
ask_for_step(void)
{
    struct scout_progress *progress = scout_state.progress;
    uint32_t asked = atomic_fetch_add(&progress->asked, 1) + 1;
    for (int ms = 0; ms < PATIENCE_MS && atomic_load(&progress->answered) != asked; ++ms)
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return atomic_load(&progress->answered) != asked || atomic_load(&progress->is_step) != 0;
}

static void
refuse_period(void)
{
    refused[refused_count++] = (struct refused){period, sum_of(period)};
    if (give_up_at == 0)
        give_up_at = brief_count + MOST_FURTHER;
    back_to_light();
}

bool
course_is_to_wait(void)
{
    return course_now() == COURSE_DEEP || (course_now() == COURSE_LIGHT && brief_count + 1 >= next_search);
}

void
course_note(const struct noted *noted, bool may_wait)
{
    atomic_store(&scout_state.progress->operations, scout_state.operation_count);
    keep_noted(noted);
    if (course_now() == COURSE_DEEP) {
        size_t done = brief_count - deep_begin;
        atomic_store(&scout_state.progress->deep, done);
        /* Like the one of the period before; of the first period that was elsewhere, if the pass was resumed. */
        if (!is_alike(brief_count - 1, done < period ? deep_begin - first_like : period))
            leave_deep();
        else if (done >= period * scout_state.settings.periods) {
            put_shared();
            if (refused_count == MOST_REFUSED || ask_for_step())
                end_deep();
            else
                refuse_period();
        }
        return;
    }
    if (give_up_at != 0 && brief_count >= give_up_at) {
        end_deep();
        return;
    }
    likeness = resume_period > 0 ? resume_likeness : likeness;
    if (resume_period > 0 && may_wait && !captures_are_open() &&
        is_alike(brief_count - 1, brief_count - 1 - resume_from)) {
        period = resume_period;
        begin_deep(resume_from + 1, true);
        return;
    }
    if (brief_count < next_search || !may_wait || captures_are_open())
        return;
    next_search = brief_count + brief_count / 8 + 1;
    compare_memory();
    period = find_period();
    if (period > 0)
        begin_deep(brief_count - period, false);
}
