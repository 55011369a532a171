/* judge.c - see hang.h. */
#include "launcher/watch/hang.h"

#include "launcher/common/xcalloc.h"
#include "launcher/watch/verdict.h"

#include <stdlib.h>
#include <string.h>

#define MS            UINT64_C(1000000)
#define LEFT_EARLY_NS (1000 * MS)  /* ranks that end without our knowledge do so at about the same time */
#define FOLLOWS_NS    (1500 * MS)  /* a rank's sockets close before its end can be known, a core dump may lie between */
#define COMMON_NS     (60000 * MS) /* for what rank 0 saves before an end that is the program's own: a large model */

struct judge {
    int count;
    struct hang *hang;
    uint64_t *missed_since_ns; /* per rank: needed, and not there; 0: not */
    uint64_t doubt_since_ns;   /* failures may follow from another, or be the program's common end; 0: not so */
};

struct judge *
judge_new(int count, const struct hang_limits *limits, uint64_t now_ns)
{
    struct judge *judge = xcalloc(1, sizeof(*judge));
    judge->count = count;
    judge->hang = hang_new(count, limits, now_ns);
    judge->missed_since_ns = xcalloc((size_t)count, sizeof(*judge->missed_since_ns));
    return judge;
}

void
judge_free(struct judge *judge)
{
    hang_free(judge->hang);
    free(judge->missed_since_ns);
    free(judge);
}

/* ---- ends ---- */

/* A rank that ended with exit code 0 has left early only if others need it: one that is done may leave by _exit() while
 * rank 0 still writes the last checkpoint. The others may end in the same way, and are given the time. By plan the same
 * holds for one that died, if rank 0 needs it. Rank 0 may have got what it was seen to wait for, and may be starved:
 * the time is that of its engine's looks. */
static void
find_early_leavers(struct judge *judge, struct rank_view *views, uint64_t now_ns)
{
    for (int i = 0; i < judge->count; ++i) {
        uint64_t *since_ns = &judge->missed_since_ns[i];
        bool died = views[i].exit_code != 0 || views[i].signal != 0;
        if ((!died && !verdict_is_unfinished(&views[i])) || !verdict_is_needed(views, judge->count, i, !died)) {
            *since_ns = 0;
            continue;
        }
        uint64_t seen_ns = died ? views[0].watch_ns : now_ns;
        if (*since_ns == 0)
            *since_ns = seen_ns;
        views[i].left_early = seen_ns - *since_ns >= LEFT_EARLY_NS;
    }
}

static bool
all_ended(const struct judge *judge, const struct rank_view *views)
{
    for (int i = 0; i < judge->count; ++i) {
        if (!views[i].ended)
            return false;
    }
    return true;
}

/* What one rank's end does to others may be known before it is itself, and rank 0 may be the last to end so. */
static bool
is_settled(struct judge *judge, const struct rank_view *views, uint64_t now_ns)
{
    bool may_be_common = verdict_may_be_common(views, judge->count);
    if (!may_be_common && !verdict_only_follows(views, judge->count))
        return true;
    if (judge->doubt_since_ns == 0)
        judge->doubt_since_ns = now_ns;
    bool may_have_left = false; /* which takes LEFT_EARLY_NS to be known */
    for (int i = 0; i < judge->count; ++i)
        may_have_left = may_have_left || verdict_is_unfinished(&views[i]);
    uint64_t patience_ns = may_be_common ? COMMON_NS : may_have_left ? 2 * FOLLOWS_NS : FOLLOWS_NS;
    return now_ns - judge->doubt_since_ns >= patience_ns;
}

/* Where a rank's own --timeout has ended the job, the rank that did not come is named first, and that one after it. */
static void
name_missing(const struct judge *judge, const struct rank_view *views, uint64_t now_ns, struct error *error)
{
    char place[RANK_WORDS_BYTES], step[RANK_STEP_BYTES], doing[RANK_WORDS_BYTES];
    int missing = hang_suspect(judge->hang, views, now_ns);
    if (missing < 0 || missing == error->rank || error->rank < 0 ||
        strstr(views[error->rank].failure, "for the other ranks") == NULL)
        return;
    struct error waiter = *error;
    (void)error_set(error, waiter.exit_code, "rank %d%s%s keeps the others waiting: %s; %s", missing,
                    rank_describe_place(&views[missing], place), rank_describe_step(&views[missing], step),
                    rank_describe_activity(&views[missing], doing), waiter.text);
    error->rank = missing;
}

enum judgement
judge_ends(struct judge *judge, struct rank_view *views, uint64_t now_ns, struct error *error)
{
    find_early_leavers(judge, views, now_ns);
    bool over = all_ended(judge, views);
    bool failed = over ? verdict_find_at_end(views, judge->count, error) : verdict_find(views, judge->count, error);
    if (failed)
        name_missing(judge, views, now_ns, error);
    if (failed)
        return over || is_settled(judge, views, now_ns) ? JUDGED_FAILED : JUDGED_IN_DOUBT;
    return over ? JUDGED_OVER : JUDGED_GOES_ON;
}

/* ---- doings ---- */

static bool
find_unseen(const struct judge *judge, const struct rank_view *views, struct error *error)
{
    for (int i = 0; i < judge->count; ++i) {
        if (views[i].preload_suspect != 0)
            return !error_set(
                error, DDPRUN_EXIT_FAILURE,
                "rank %d uses the CUDA driver in process %d, which ddprun's library was not loaded into, so it would "
                "train alone; usual causes: a static or setuid executable, or a wrapper that clears LD_PRELOAD",
                i, views[i].preload_suspect);
    }
    return false;
}

enum judgement
judge_running(struct judge *judge, const struct rank_view *views, uint64_t now_ns, struct error *error)
{
    static const enum judgement judged[] = {
        [HANG_NONE] = JUDGED_GOES_ON, [HANG_WARNING] = JUDGED_WARNING, [HANG_END] = JUDGED_FAILED};
    return find_unseen(judge, views, error) ? JUDGED_FAILED : judged[hang_look(judge->hang, views, now_ns, error)];
}

int
judge_suspect(const struct judge *judge, const struct rank_view *views, uint64_t now_ns)
{
    return hang_suspect(judge->hang, views, now_ns);
}
