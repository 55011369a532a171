/*
 * hang.c - see hang.h.
 *
 * A rank waits if it has come, on the host or on its device, to something that all ranks do together. The ranks that do
 * not wait keep it waiting; the one of them that has made no hooked call for longest is the culprit.
 *
 * Where no rank waits for another, no rank that may be at work is accused. But a job is not left standing without a
 * message: that all ranks wait for their own devices is reported, a rank that has nothing left to do but to exit must
 * exit, and all ranks together must neither wait where nothing outside of them can continue them nor stay stopped.
 */
#include "launcher/watch/hang.h"

#include "base/protocol.h"
#include "launcher/common/xcalloc.h"
#include "launcher/watch/verdict.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES = 256 };

#define PAUSE_NS UINT64_C(5000000000) /* without a look: the launcher was stopped, and so were its ranks */
/* What is seen of ranks elsewhere is up to a second old; and what one says to another may be delayed by the network. */
#define AT_END_NS     UINT64_C(1000000000) /* from there a rank comes nowhere else */
#define ON_ITS_WAY_NS UINT64_C(10000000000)

/* What the views say of one rank, and since when. */
struct watched {
    uint64_t progress, wait_count;
    enum rank_wait wait;
    bool stopped;
    uint64_t progress_ns, wait_ns; /* when that was seen first */
    uint64_t watch_ns, alive_ns;   /* when its process was seen last to continue, */
    uint64_t stayed_ns;            /* and for how long it has, waiting there */
    uint64_t stopped_ns;           /* when it was seen first to be stopped */
    bool warned;
};

struct hang {
    struct hang_limits limits;
    int count;
    uint64_t looked_ns; /* when it was looked last */
    bool warned_of_all;
    struct watched *ranks;
};

struct hang *
hang_new(int count, const struct hang_limits *limits, uint64_t now_ns)
{
    struct hang *hang = xcalloc(1, sizeof(*hang));
    *hang = (struct hang){
        .limits = *limits, .count = count, .looked_ns = now_ns, .ranks = xcalloc((size_t)count, sizeof(*hang->ranks))};
    for (int i = 0; i < count; ++i)
        hang->ranks[i] = (struct watched){.progress_ns = now_ns, .wait_ns = now_ns};
    return hang;
}

void
hang_free(struct hang *hang)
{
    if (hang == NULL)
        return;
    free(hang->ranks);
    free(hang);
}

/* ---- what the ranks do ---- */

/* What a stopped rank said before it was stopped need not be true any more. */
static bool
is_waiting(const struct rank_view *view)
{
    return !view->ended && !view->stopped && (view->wait == RANK_WAIT_EXCHANGE || view->wait == RANK_WAIT_COLLECTIVE);
}

static bool
waits_in(const struct rank_view *view, enum rank_wait wait)
{
    return is_waiting(view) && view->wait == wait;
}

static void
follow_rank(struct watched *rank, const struct rank_view *view, uint64_t now_ns)
{
    /* Each of these only grows; waiting anew is progress too, and so is waiting no more. */
    uint64_t progress = view->call_count + view->step + view->stage + view->wait_count;
    if (progress != rank->progress || view->wait != rank->wait || (rank->stopped && !view->stopped)) {
        rank->progress_ns = now_ns;
        rank->warned = false;
    }
    if (view->wait != rank->wait || view->wait_count != rank->wait_count)
        rank->wait_ns = now_ns;
    if (view->stopped && !rank->stopped)
        rank->stopped_ns = now_ns;
    rank->progress = progress;
    rank->wait = view->wait;
    rank->wait_count = view->wait_count;
    rank->stopped = view->stopped;
}

/* What a stopped, starved or silent process said last is old: it may have got what it waited for. */
static void
follow_life(struct watched *rank, const struct rank_view *view, uint64_t now_ns)
{
    if (view->wait != rank->wait || view->wait_count != rank->wait_count)
        rank->stayed_ns = 0;
    if (view->watch_ns == rank->watch_ns)
        return;
    uint64_t gap_ns = now_ns - rank->alive_ns;
    rank->stayed_ns = gap_ns > HANG_SILENCE_NS ? 0 : rank->stayed_ns + gap_ns;
    rank->watch_ns = view->watch_ns;
    rank->alive_ns = now_ns;
}

/* The rank that has waited longest; -1: none does. */
static int
longest_waiter(const struct hang *hang, const struct rank_view *views)
{
    int longest = -1;
    for (int i = 0; i < hang->count; ++i) {
        if (is_waiting(&views[i]) && (longest < 0 || hang->ranks[i].wait_ns < hang->ranks[longest].wait_ns))
            longest = i;
    }
    return longest;
}

/* Until when it is known what the rank did: until it was seen last to continue, if that was a moment ago. A process
 * that is stopped does nothing; of one that is not heard any more, nothing else is to be expected. */
static uint64_t
known_until_ns(const struct watched *rank, uint64_t now_ns)
{
    return rank->stopped || now_ns - rank->alive_ns > HANG_SILENCE_NS ? now_ns : rank->alive_ns;
}

/* For how long the rank has kept others waiting without a call. */
static uint64_t
idle_ns(const struct hang *hang, int rank, int waiter, uint64_t now_ns)
{
    uint64_t since = hang->ranks[rank].progress_ns, waited = hang->ranks[waiter].wait_ns;
    uint64_t until = known_until_ns(&hang->ranks[rank], now_ns);
    since = waited > since ? waited : since;
    return until > since ? until - since : 0;
}

/* The rank that has kept others waiting longest, -1 if all wait. */
static int
find_culprit(const struct hang *hang, const struct rank_view *views, int waiter, uint64_t now_ns)
{
    int culprit = -1;
    for (int i = 0; i < hang->count; ++i) {
        if (views[i].ended || views[i].stage == RANK_STAGE_FAILED || is_waiting(&views[i]))
            continue;
        if (culprit < 0 || idle_ns(hang, i, waiter, now_ns) > idle_ns(hang, culprit, waiter, now_ns))
            culprit = i;
    }
    return culprit;
}

/* ---- words ---- */

/* A rank that may just have much to do: a checkpoint, an evaluation. */
static bool
may_be_busy(const struct rank_view *view)
{
    return !view->stopped && !view->in_call && view->wait == RANK_WAIT_NONE;
}

/* "rank 0 waits for bucket 3 of step 8 (61.0 s)", and how many others do as well. */
static void
describe_waiters(const struct hang *hang, const struct rank_view *views, int waiter, char text[TEXT_BYTES])
{
    char wait[RANK_WORDS_BYTES];
    int others = -1;
    for (int i = 0; i < hang->count; ++i)
        others += is_waiting(&views[i]);
    int used = snprintf(text, TEXT_BYTES, "rank %d %s", waiter, rank_describe_wait(&views[waiter], wait));
    if (others > 0 && used > 0 && used < TEXT_BYTES)
        snprintf(text + used, (size_t)(TEXT_BYTES - used), ", and %d other%s too", others, others == 1 ? "" : "s");
}

/* "; ..." what becomes of the job. */
static void
describe_end(const struct hang *hang, bool ends, bool may_be_busy, char text[TEXT_BYTES])
{
    if (ends)
        snprintf(text, TEXT_BYTES, "; --hang-timeout allows %.0f s", rank_seconds(hang->limits.end_ns));
    else if (hang->limits.end_ns > 0)
        snprintf(text, TEXT_BYTES, "; %sthe job continues, unless this lasts %.0f s (--hang-timeout)",
                 may_be_busy ? "a long checkpoint, for example, is not a fault: " : "",
                 rank_seconds(hang->limits.end_ns));
    else
        snprintf(text, TEXT_BYTES, "; the job continues (--hang-timeout 0)");
}

static void
describe_culprit(const struct hang *hang, const struct rank_view *views, int culprit, int waiter, uint64_t idle,
                 bool ends, struct error *error)
{
    char place[RANK_WORDS_BYTES], doing[RANK_WORDS_BYTES], waiters[TEXT_BYTES], step[RANK_STEP_BYTES], end[TEXT_BYTES];
    describe_waiters(hang, views, waiter, waiters);
    describe_end(hang, ends, may_be_busy(&views[culprit]), end);
    error_set(error, DDPRUN_EXIT_FAILURE, "rank %d%s%s has made no CUDA call for %.0f s%s: %s; %s%s", culprit,
              rank_describe_place(&views[culprit], place), rank_describe_step(&views[culprit], step),
              rank_seconds(idle), ends ? ", and the job ends" : "", rank_describe_activity(&views[culprit], doing),
              waiters, end);
}

/* A rank that waits elsewhere than `waiter` does; -1: none does. */
static int
find_elsewhere(const struct hang *hang, const struct rank_view *views, int waiter)
{
    for (int i = 0; i < hang->count; ++i) {
        bool is_there = views[i].wait == views[waiter].wait && strcmp(views[i].wait_for, views[waiter].wait_for) == 0;
        if (is_waiting(&views[i]) && !is_there)
            return i;
    }
    return -1;
}

static void
describe_all_waiting(const struct hang *hang, const struct rank_view *views, int waiter, bool ends, struct error *error)
{
    char waiters[TEXT_BYTES], wait[RANK_WORDS_BYTES], other[RANK_WORDS_BYTES];
    int elsewhere = find_elsewhere(hang, views, waiter);
    const char *end = ends ? "; --hang-timeout ends the job" : "";
    if (elsewhere >= 0) { /* the communication may be stuck all the same: hosts run ahead of their devices */
        error_set(error, DDPRUN_EXIT_FAILURE,
                  "all ranks wait, and at different places: rank %d %s, rank %d %s; do all ranks make the same "
                  "ddprun calls? If they do, the communication itself is stuck (the network, or NCCL: "
                  "NCCL_DEBUG=INFO says more)%s",
                  waiter, rank_describe_wait(&views[waiter], wait), elsewhere,
                  rank_describe_wait(&views[elsewhere], other), end);
        return;
    }
    describe_waiters(hang, views, waiter, waiters);
    bool in_graph = strncmp(views[waiter].wait_for, RANK_WAIT_GRAPH, sizeof(RANK_WAIT_GRAPH) - 1) == 0;
    error_set(error, DDPRUN_EXIT_FAILURE,
              "all ranks wait at the same place: %s; so the communication itself is stuck (the network, or "
              "NCCL: NCCL_DEBUG=INFO says more)%s%s",
              waiters, in_graph ? ", or a kernel in some rank's graph does not end" : "", end);
}

/* The rank of which nothing has been heard for longest; -1: all are heard. */
static int
find_silent(const struct hang *hang, const struct rank_view *views, uint64_t now_ns)
{
    int silent = -1;
    for (int i = 0; i < hang->count; ++i) {
        const struct watched *rank = &hang->ranks[i];
        if (!views[i].stopped && rank->watch_ns != 0 && now_ns - rank->alive_ns > HANG_SILENCE_NS &&
            (silent < 0 || rank->alive_ns < hang->ranks[silent].alive_ns))
            silent = i;
    }
    return silent;
}

/* What a silent rank said last is old: it is shown with its age. */
static void
describe_silence(const struct hang *hang, const struct rank_view *views, int silent, uint64_t now_ns, bool ends,
                 struct error *error)
{
    char place[RANK_WORDS_BYTES], step[RANK_STEP_BYTES], wait[RANK_WORDS_BYTES], end[TEXT_BYTES];
    describe_end(hang, ends, false, end);
    error_set(error, DDPRUN_EXIT_FAILURE,
              "rank %d%s%s has not reported for %.0f s; in its last report it %s: its host, or the network to it, does "
              "not answer; all others wait%s",
              silent, rank_describe_place(&views[silent], place), rank_describe_step(&views[silent], step),
              rank_seconds(now_ns - hang->ranks[silent].alive_ns), rank_describe_wait(&views[silent], wait), end);
    error->rank = silent;
}

static void
describe_devices(const struct rank_view *view, int rank, uint64_t idle, struct error *error)
{
    char place[RANK_WORDS_BYTES], doing[RANK_WORDS_BYTES], step[RANK_STEP_BYTES];
    error_set(error, DDPRUN_EXIT_FAILURE,
              "no rank has made a CUDA call for %.0f s, and all wait for their own devices: rank %d%s%s: %s; does a "
              "kernel not end? A long kernel is not a fault, so the job continues",
              rank_seconds(idle), rank, rank_describe_place(view, place), rank_describe_step(view, step),
              rank_describe_activity(view, doing));
}

static void
describe_stopped(const struct hang *hang, const struct rank_view *views, int rank, uint64_t idle, bool ends,
                 struct error *error)
{
    char place[RANK_WORDS_BYTES], step[RANK_STEP_BYTES], doing[RANK_WORDS_BYTES], end[TEXT_BYTES];
    describe_end(hang, ends, false, end);
    error_set(error, DDPRUN_EXIT_FAILURE,
              "all ranks that have not ended have been stopped for %.0f s%s; rank %d%s%s: %s%s", rank_seconds(idle),
              ends ? ", and the job ends" : "", rank, rank_describe_place(&views[rank], place),
              rank_describe_step(&views[rank], step), rank_describe_activity(&views[rank], doing), end);
}

/* Of one that is past its end, or idle in its program. */
static void
describe_idle(const struct hang *hang, const struct rank_view *views, int rank, uint64_t idle, bool ends,
              struct error *error)
{
    char place[RANK_WORDS_BYTES], step[RANK_STEP_BYTES], end[TEXT_BYTES], others[TEXT_BYTES] = "all others have ended";
    bool exiting = views[rank].exiting;
    int count = 0;
    for (int i = 0; i < hang->count; ++i)
        count += i != rank && !views[i].ended;
    if (count > 0)
        snprintf(others, sizeof(others), "%d other%s not %s, either", count, count == 1 ? " has" : "s have",
                 exiting ? "exited" : "continued");
    describe_end(hang, ends, false, end);
    error_set(error, DDPRUN_EXIT_FAILURE, "rank %d%s%s has %s %.0f s%s: %s; %s%s", rank,
              rank_describe_place(&views[rank], place), rank_describe_step(&views[rank], step),
              exiting ? "ended its program cleanly, but its process has not exited for"
                      : "made no CUDA call and used no CPU time for",
              rank_seconds(idle), ends ? ", and the job ends" : "",
              exiting ? "an exit handler or a destructor hangs"
                      : "its threads wait for each other or for a signal, without a time limit",
              others, end);
}

/* ---- judging ---- */

static enum hang_outcome
outcome_of(const struct hang *hang, uint64_t idle, bool may_end, bool *warned)
{
    if (may_end && hang->limits.end_ns > 0 && idle >= hang->limits.end_ns)
        return HANG_END;
    if (hang->limits.warning_ns == 0 || idle < hang->limits.warning_ns || *warned)
        return HANG_NONE;
    *warned = true;
    return HANG_WARNING;
}

/* Whether `behind` compares its call of DDP_REDUCE, and `ahead` has made the call of that number without. */
static bool
is_past_comparison(const struct rank_view *behind, const struct rank_view *ahead)
{
    static const char call[] = "DDP_REDUCE";
    return strncmp(behind->wait_for, call, sizeof(call) - 1) == 0 &&
           strncmp(ahead->wait_for, call, sizeof(call) - 1) == 0 && behind->reduce_count <= ahead->reduce_count;
}

/* Whether rank `behind`, which waits on the host, cannot send what rank `ahead` waits for on its device: for how long
 * both must have waited to be sure of it; 0: it can. It cannot if it is at its program's end, and the collective
 * belongs to a step that it has not made. Nor if it has made fewer steps, for before it continues all ranks must reach
 * its place, which the other has passed, as it has where it is in a DDP_STEP that the first has not reached; unless
 * what it waits to hear is still on its way. The same holds for calls of DDP_REDUCE. */
static uint64_t
sure_after_ns(const struct rank_view *behind, const struct rank_view *ahead)
{
    if (behind->generation != ahead->generation) /* one is in the next training already, or heard of late */
        return 0;
    if (strcmp(behind->wait_for, RANK_PLACE_END) == 0 && behind->step < ahead->wait_step)
        return AT_END_NS;
    bool is_elsewhere = behind->step == ahead->step &&
                        strncmp(ahead->wait_for, RANK_WAIT_COMPARISON, sizeof(RANK_WAIT_COMPARISON) - 1) == 0;
    return behind->step < ahead->step || is_elsewhere || is_past_comparison(behind, ahead) ? ON_ITS_WAY_NS : 0;
}

/* What the ranks should have done: named is a DDP_STEP that rank `behind` has left out, if it has one step less. */
static const char *
describe_rule(const struct rank_view *behind, int rank, char text[TEXT_BYTES])
{
    if (behind->left_out_step == 0)
        return "all ranks must make the same ddprun calls and the same number of steps";
    snprintf(text, TEXT_BYTES, RANK_LEFT_OUT, rank, (unsigned long long)behind->left_out_step);
    return text;
}

/* Two ranks that wait for each other, and would for ever: the first two that are found, and that have waited for as
 * long as it takes to be sure, or for `enough_ns`. */
static bool
find_different_places(const struct hang *hang, const struct rank_view *views, uint64_t enough_ns, struct error *error)
{
    for (int behind = 0; behind < hang->count; ++behind) {
        if (!waits_in(&views[behind], RANK_WAIT_EXCHANGE))
            continue;
        for (int ahead = 0; ahead < hang->count; ++ahead) {
            uint64_t limit_ns = sure_after_ns(&views[behind], &views[ahead]);
            if (!waits_in(&views[ahead], RANK_WAIT_COLLECTIVE) || limit_ns == 0)
                continue;
            limit_ns = limit_ns < enough_ns ? limit_ns : enough_ns;
            if (hang->ranks[behind].stayed_ns < limit_ns || hang->ranks[ahead].stayed_ns < limit_ns)
                continue;
            char place[RANK_WORDS_BYTES], other[RANK_WORDS_BYTES], rule[TEXT_BYTES];
            error_set(error, DDPRUN_EXIT_FAILURE,
                      "rank %d%s waits at %s after %" PRIu64 " steps, while rank %d%s, with %" PRIu64 " steps "
                      "launched, waits for it in %s: %s",
                      behind, rank_describe_place(&views[behind], place), views[behind].wait_for, views[behind].step,
                      ahead, rank_describe_place(&views[ahead], other), views[ahead].step, views[ahead].wait_for,
                      describe_rule(&views[behind], behind, rule));
            error->rank = behind;
            return true;
        }
    }
    return false;
}

/* No rank is behind: for as long as the last of them has waited. */
static enum hang_outcome
judge_all_waiting(struct hang *hang, const struct rank_view *views, int waiter, uint64_t now_ns, struct error *error)
{
    uint64_t since = 0;
    for (int i = 0; i < hang->count; ++i) {
        if (views[i].ended)
            return HANG_NONE; /* whose end is looked at elsewhere */
        since = hang->ranks[i].wait_ns > since ? hang->ranks[i].wait_ns : since;
    }
    uint64_t idle = now_ns > since ? now_ns - since : 0;
    if (hang->limits.warning_ns > 0 && idle < hang->limits.warning_ns)
        hang->warned_of_all = false;
    enum hang_outcome outcome = outcome_of(hang, idle, true, &hang->warned_of_all);
    if (outcome == HANG_END && find_different_places(hang, views, 0, error))
        return outcome; /* it ends in any case, and this explains it better */
    int silent = find_silent(hang, views, now_ns);
    if (outcome != HANG_NONE && silent >= 0)
        describe_silence(hang, views, silent, now_ns, outcome == HANG_END, error);
    else if (outcome != HANG_NONE)
        describe_all_waiting(hang, views, waiter, outcome == HANG_END, error);
    return outcome;
}

/* No rank waits for another. Kernels may take long on all ranks alike, so that is only reported; but all that have not
 * ended may be past their end, or idle, and then the job waits for nothing else. Counted from when the last of them
 * continued. */
static enum hang_outcome
judge_none_waiting(struct hang *hang, const struct rank_view *views, uint64_t now_ns, struct error *error)
{
    int named = -1;
    bool on_device = false;
    uint64_t idle = UINT64_MAX;
    for (int i = 0; i < hang->count; ++i) {
        const struct rank_view *view = &views[i];
        bool is_idle = view->idle_ns > 0, here = !view->exiting && !is_idle;
        if (view->ended)
            continue;
        if (view->stopped || (here && !rank_is_on_device(view)))
            return HANG_NONE;
        if (named < 0 || (!on_device && here) || (views[named].exiting && is_idle))
            named = i;
        on_device = on_device || here;
        uint64_t since = hang->ranks[i].progress_ns, stood = now_ns > since ? now_ns - since : 0;
        stood = is_idle && view->idle_ns < stood ? view->idle_ns : stood;
        idle = stood < idle ? stood : idle;
    }
    if (named < 0)
        return HANG_NONE;
    enum hang_outcome outcome = outcome_of(hang, idle, !on_device, &hang->ranks[named].warned);
    if (outcome == HANG_NONE)
        return outcome;
    if (on_device)
        describe_devices(&views[named], named, idle, error);
    else
        describe_idle(hang, views, named, idle, outcome == HANG_END, error);
    error->rank = named;
    return outcome;
}

/* The first rank that has not ended, if all of these are stopped; -1: one is not, or all have ended. */
static int
find_stopped(const struct hang *hang, const struct rank_view *views)
{
    int first = -1;
    for (int i = 0; i < hang->count; ++i) {
        if (views[i].ended)
            continue;
        if (!views[i].stopped)
            return -1;
        first = first < 0 ? i : first;
    }
    return first;
}

/* No rank can wait for another: a batch system or a terminal may have stopped all of them. Counted from when the last
 * of them was stopped. */
static enum hang_outcome
judge_all_stopped(struct hang *hang, const struct rank_view *views, int first, uint64_t now_ns, struct error *error)
{
    uint64_t since = 0;
    for (int i = 0; i < hang->count; ++i) {
        if (!views[i].ended && hang->ranks[i].stopped_ns > since)
            since = hang->ranks[i].stopped_ns;
    }
    uint64_t idle = now_ns > since ? now_ns - since : 0;
    enum hang_outcome outcome = outcome_of(hang, idle, true, &hang->ranks[first].warned);
    if (outcome == HANG_NONE)
        return outcome;
    describe_stopped(hang, views, first, idle, outcome == HANG_END, error);
    error->rank = first;
    return outcome;
}

/* Time in which the supervisor did not look does not count. */
static void
skip_pause(struct hang *hang, uint64_t now_ns)
{
    uint64_t pause = now_ns - hang->looked_ns;
    hang->looked_ns = now_ns;
    if (pause < PAUSE_NS)
        return;
    for (int i = 0; i < hang->count; ++i) {
        hang->ranks[i].progress_ns += pause;
        hang->ranks[i].wait_ns += pause;
        hang->ranks[i].stopped_ns += pause;
    }
}

enum hang_outcome
hang_look(struct hang *hang, const struct rank_view *views, uint64_t now_ns, struct error *error)
{
    skip_pause(hang, now_ns);
    for (int i = 0; i < hang->count; ++i) {
        follow_life(&hang->ranks[i], &views[i], now_ns);
        follow_rank(&hang->ranks[i], &views[i], now_ns);
    }
    int waiter = longest_waiter(hang, views);
    if (hang->count == 1)
        return HANG_NONE;
    int stopped = find_stopped(hang, views);
    if (stopped >= 0)
        return judge_all_stopped(hang, views, stopped, now_ns, error);
    if (waiter < 0)
        return judge_none_waiting(hang, views, now_ns, error);
    if (find_different_places(hang, views, UINT64_MAX, error))
        return HANG_END;

    int culprit = find_culprit(hang, views, waiter, now_ns);
    if (culprit < 0)
        return judge_all_waiting(hang, views, waiter, now_ns, error);
    uint64_t idle = idle_ns(hang, culprit, waiter, now_ns);
    enum hang_outcome outcome = outcome_of(hang, idle, true, &hang->ranks[culprit].warned);
    if (outcome != HANG_NONE) {
        describe_culprit(hang, views, culprit, waiter, idle, outcome == HANG_END, error);
        error->rank = culprit;
    }
    return outcome;
}

int
hang_suspect(const struct hang *hang, const struct rank_view *views, uint64_t now_ns)
{
    int waiter = longest_waiter(hang, views);
    return waiter < 0 ? -1 : find_culprit(hang, views, waiter, now_ns);
}
