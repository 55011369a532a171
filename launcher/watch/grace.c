/* grace.c - see grace.h. */
#include "launcher/watch/grace.h"

#include "base/printable.h"
#include "base/protocol.h"
#include "launcher/common/xcalloc.h"
#include "launcher/watch/verdict.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IN_VAIN_NS UINT64_C(1000000000) /* in which a call gets what a rank has sent before it left */

enum { NAMES_AT_MOST = 8, PLACE_BYTES = 64 };

#define RECIPE "decide together whether to stop: DDP_ANY(&flag) (man ddprun.h)"

/* ---- states ---- */

static bool
is_at_end(const struct rank_view *rank)
{
    return rank->wait == RANK_WAIT_EXCHANGE && strcmp(rank->wait_for, RANK_PLACE_END) == 0;
}

/* A trainer that outlives the script around it still works. */
static bool
has_left(const struct rank_view *rank)
{
    bool has_ended = rank->ended && !rank->outlived;
    return has_ended || rank->stage == RANK_STAGE_ENDED || is_at_end(rank);
}

/* A collective of a step, to whose end each rank has to come; unlike one of a call such as DDP_REDUCE. */
static bool
is_of_step(const struct rank_view *rank)
{
    return strncmp(rank->wait_for, "bucket ", strlen("bucket ")) == 0 ||
           strncmp(rank->wait_for, "buffer ", strlen("buffer ")) == 0 ||
           strncmp(rank->wait_for, RANK_WAIT_COMPARISON, strlen(RANK_WAIT_COMPARISON)) == 0 ||
           strncmp(rank->wait_for, RANK_WAIT_GRAPH, strlen(RANK_WAIT_GRAPH)) == 0;
}

/* Of one that waits for its device the host may still work: it is in no call, and its program has not ended. */
static bool
is_blocked(const struct rank_view *rank)
{
    if (rank->wait == RANK_WAIT_EXCHANGE)
        return true;
    return rank->wait == RANK_WAIT_COLLECTIVE && (rank->in_call || rank->ends || rank->in_step);
}

/* Whether the rank waits for `left`, which has left. Before it trains it waits for all, to meet them. What a rank has
 * sent before it left may still be on its way. */
static bool
waits_in_vain(const struct rank_view *rank, const struct rank_view *left)
{
    if (rank->stage < RANK_STAGE_RANK)
        return rank->connected;
    if (!is_blocked(rank) || rank->generation != left->generation)
        return false;
    if (rank->wait == RANK_WAIT_COLLECTIVE && is_of_step(rank) && rank->wait_step > left->step)
        return true;
    return rank->wait_ns >= IN_VAIN_NS;
}

/* A rank that has left in the middle of a step is not there for the rest of the step either. */
static int
find_left(const struct rank_view *ranks, int count, int rank)
{
    for (int i = 0; i < count; ++i) {
        if (i != rank && has_left(&ranks[i]))
            return i;
    }
    return -1;
}

enum grace_state
grace_state_of(const struct rank_view *ranks, int count, int rank, int *left_p)
{
    const struct rank_view *view = &ranks[rank];
    *left_p = -1;
    if (has_left(view))
        return GRACE_LEFT;
    if (view->in_handler)
        return GRACE_WORKS;
    if (view->stage == RANK_STAGE_FAILED) {
        *left_p = find_left(ranks, count, rank);
        return GRACE_FAILED;
    }
    for (int i = 0; i < count; ++i) {
        if (i == rank || !has_left(&ranks[i]) || !waits_in_vain(view, &ranks[i]))
            continue;
        *left_p = i;
        return GRACE_WAITS;
    }
    return GRACE_WORKS;
}

/* ---- lines ---- */

static const char *
name_of(int signal)
{
    const char *name = sigabbrev_np(signal);
    return name != NULL ? name : "?";
}

/* In which step a rank is that did not stop. Its host may have passed the end of the step that its device waits in. */
static uint64_t
step_of(const struct rank_view *rank)
{
    bool is_known = rank->wait == RANK_WAIT_COLLECTIVE && rank->wait_step > 0;
    return is_known ? rank->wait_step : rank->step + 1;
}

/* "rank 1 after step 82", "rank 1, ended by SIGTERM, after step 82". */
static void
add_left(const struct rank_view *ranks, int left, char *text)
{
    char step[RANK_STEP_BYTES];
    printable_append(text, GRACE_TEXT_BYTES, "rank %d", left);
    if (ranks[left].signal != 0)
        printable_append(text, GRACE_TEXT_BYTES, ", ended by SIG%s,", name_of(ranks[left].signal));
    printable_append(text, GRACE_TEXT_BYTES, "%s", rank_describe_step(&ranks[left], step));
}

/* "(rank 1 after step 82, rank 0 in step 83)": the rank that has left, and those that have not (`others`). */
static void
add_steps(const struct rank_view *ranks, int count, int left, const bool *others, char *text)
{
    int named = 0, more = 0;
    printable_append(text, GRACE_TEXT_BYTES, " (");
    add_left(ranks, left, text);
    for (int i = 0; i < count; ++i) {
        if (!others[i])
            continue;
        if (named < NAMES_AT_MOST)
            printable_append(text, GRACE_TEXT_BYTES, ", rank %d in step %" PRIu64, i, step_of(&ranks[i]));
        more += named >= NAMES_AT_MOST;
        ++named;
    }
    if (more > 0)
        printable_append(text, GRACE_TEXT_BYTES, ", %d more ranks did not stop", more);
    printable_append(text, GRACE_TEXT_BYTES, ")");
}

/* "rank 0 (host h, process 12) waits for bucket 0 of step 83 (0.1 s)": the first of them, and how many more. */
static void
add_waiter(const struct rank_view *ranks, int count, const bool *others, char *text)
{
    char place[RANK_WORDS_BYTES], waits[RANK_WORDS_BYTES];
    int first = -1, all = 0;
    for (int i = 0; i < count; ++i) {
        first = first < 0 && others[i] ? i : first;
        all += others[i];
    }
    const struct rank_view *rank = &ranks[first];
    const char *waits_for = rank->wait == RANK_WAIT_NONE ? "waits for another rank" : rank_describe_wait(rank, waits);
    printable_append(text, GRACE_TEXT_BYTES, "rank %d%s %s", first, rank_describe_place(rank, place), waits_for);
    if (all > 1)
        printable_append(text, GRACE_TEXT_BYTES, ", as do %d more", all - 1);
}

static void
add_parting(const struct rank_view *ranks, int count, int left, const bool *others, int signal, char *text)
{
    bool is_alike = true; /* they stopped after the same step, and at different calls */
    for (int i = 0; i < count; ++i)
        is_alike = is_alike && (!others[i] || step_of(&ranks[i]) <= ranks[left].step);
    printable_append(text, GRACE_TEXT_BYTES, "ranks stopped at different %s after SIG%s", is_alike ? "places" : "steps",
                     name_of(signal));
    add_steps(ranks, count, left, others, text);
    printable_append(text, GRACE_TEXT_BYTES, ": ");
    add_waiter(ranks, count, others, text);
    printable_append(text, GRACE_TEXT_BYTES, ", and rank %d does not come any more", left);
}

bool
grace_find_parting(const struct rank_view *ranks, int count, int signal, char text[GRACE_TEXT_BYTES])
{
    int left = -1;
    bool *others = xcalloc((size_t)count, sizeof(*others)), any = false;
    for (int i = 0; i < count; ++i) {
        bool stopped = has_left(&ranks[i]) && ranks[i].signal == 0 && ranks[i].exit_code == 0;
        left = left < 0 && stopped && ranks[i].stage >= RANK_STAGE_RANK ? i : left;
    }
    for (int i = 0; i < count && left >= 0; ++i) {
        others[i] = !has_left(&ranks[i]) && ranks[i].stage >= RANK_STAGE_RANK && step_of(&ranks[i]) > ranks[left].step;
        any = any || others[i];
    }
    text[0] = '\0';
    if (any) {
        add_parting(ranks, count, left, others, signal, text);
        printable_append(text, GRACE_TEXT_BYTES, ", so the job ends; " RECIPE);
    }
    free(others);
    return any;
}

/* ---- from look to look ---- */

void
grace_begin(struct grace *grace, int signal, unsigned seconds, int count)
{
    *grace = (struct grace){.signal = signal, .s = seconds, .count = count};
    grace->is_told = xcalloc((size_t)count, sizeof(*grace->is_told));
}

void
grace_free(struct grace *grace)
{
    free(grace->is_told);
    grace->is_told = NULL;
}

/* Its engine's words, where no rank that has left explains them. */
static void
add_failure(const struct rank_view *ranks, int rank, char *text)
{
    char step[RANK_STEP_BYTES];
    const char *words = ranks[rank].failure[0] != '\0' ? ranks[rank].failure : "its engine stopped it";
    printable_append(text, GRACE_TEXT_BYTES, "rank %d%s, after the signal: %.*s; the rank was ended", rank,
                     rank_describe_step(&ranks[rank], step), (int)strcspn(words, "\n"), words);
}

bool
grace_find_ends(struct grace *grace, const struct rank_view *ranks, bool *ends, char text[GRACE_TEXT_BYTES])
{
    int found = -1, found_left = -1;
    for (int i = 0; i < grace->count; ++i) {
        int left;
        enum grace_state state = grace_state_of(ranks, grace->count, i, &left);
        bool is_over = state == GRACE_WAITS || state == GRACE_FAILED;
        ends[i] = is_over && ranks[i].killed == RANK_KILLED_NOT && !grace->is_told[i];
        grace->is_told[i] = grace->is_told[i] || ends[i];
        bool explains = ends[i] && (found < 0 || (found_left < 0 && left >= 0));
        found = explains ? i : found;
        found_left = explains ? left : found_left;
    }
    text[0] = '\0';
    if (found < 0)
        return false;
    if (found_left < 0) {
        add_failure(ranks, found, text);
    } else if (grace->has_parted) { /* the recipe was said */
        add_waiter(ranks, grace->count, ends, text);
        printable_append(text, GRACE_TEXT_BYTES, ", and was ended, too");
    } else {
        add_parting(ranks, grace->count, found_left, ends, grace->signal, text);
        printable_append(text, GRACE_TEXT_BYTES, ", so it was ended; " RECIPE);
        grace->has_parted = true;
    }
    return true;
}

/* Whether it has ended by that, and not a moment before. */
static bool
was_late(const struct rank_view *rank)
{
    return rank->killed == RANK_KILLED_LATE && rank->ended && (rank->signal == SIGKILL || rank->outlived);
}

static void
describe_late(const struct grace *grace, const struct rank_view *view, int rank, char *text)
{
    char place[RANK_WORDS_BYTES], step[RANK_STEP_BYTES], words[RANK_WORDS_BYTES];
    bool waits = (view->wait == RANK_WAIT_EXCHANGE || view->wait == RANK_WAIT_COLLECTIVE) && !view->in_handler;
    bool is_done = waits && is_at_end(view);
    printable_append(text, GRACE_TEXT_BYTES, "rank %d%s was killed %u s after SIG%s,%s: ", rank,
                     rank_describe_place(view, place), grace->s, name_of(grace->signal),
                     rank_describe_step(view, step));
    if (waits)
        printable_append(text, GRACE_TEXT_BYTES, "it %s", rank_describe_wait(view, words));
    else
        printable_append(text, GRACE_TEXT_BYTES, "%s%s", rank_describe_activity(view, words),
                         view->in_handler ? "; it was in its handler of the signal" : "");
    if (is_done)
        return;
    printable_append(text, GRACE_TEXT_BYTES,
                     "; what it had not saved is lost: give it more time, --grace N and the scheduler's own limit "
                     "(man ddprun, SIGNALS)");
    if (waits)
        printable_append(text, GRACE_TEXT_BYTES, ", or " RECIPE);
}

bool
grace_next_late(struct grace *grace, const struct rank_view *ranks, char text[GRACE_TEXT_BYTES])
{
    int more = 0;
    text[0] = '\0';
    for (int i = 0; i < grace->count; ++i) {
        if (grace->is_told[i] || !was_late(&ranks[i]))
            continue;
        grace->is_told[i] = true;
        if (grace->lines >= GRACE_LINES_AT_MOST) {
            ++more;
            continue;
        }
        ++grace->lines;
        describe_late(grace, &ranks[i], i, text);
        return true;
    }
    if (more > 0)
        printable_append(text, GRACE_TEXT_BYTES, "%d more ranks were killed %u s after SIG%s", more, grace->s,
                         name_of(grace->signal));
    return more > 0;
}
