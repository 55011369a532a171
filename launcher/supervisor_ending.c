/*
 * supervisor_ending.c - the end of a job: how it begins for all ranks, the time that they have, and who is killed
 * (supervisor.h).
 */
#include "launcher/supervisor.h"

#include "base/clock.h"
#include "base/message.h"
#include "launcher/common/xcalloc.h"
#include "launcher/output/relay.h"
#include "launcher/watch/verdict.h"

#include <poll.h>

enum {
    LAST_LOOKS_MS = 500, /* for which the other ranks' looks at their gradients are waited for, if one ended itself */
    LAST_LOOKS_STEP_MS = 5,
    GRACE_ASK_MS = 500, /* between questions for views of this moment, while ranks save their work */
};

#define UNKILLABLE_NS (PROCESSES_UNKILLABLE_MS * MS)
#define OTHERS_NS     (4000 * MS) /* for other supervisors to report, and to say that nothing is left of their ranks */

uint64_t
supervisor_grace_ns(const struct supervisor *s)
{
    return s->job->options.job.grace_s * (1000 * MS);
}

/* Of all ranks: supervisor 0 also tells the others. `number`: the signal for ranks, 0: none; `asked`: the one that has
 * asked them to stop, 0: none has. */
void
supervisor_begin_end(struct supervisor *s, int number, int asked, uint64_t time_ns)
{
    struct peer_order order = {.exit_code = s->failed ? s->reason.exit_code : 0,
                               .signal = number,
                               .grace_ms = (int)(time_ns / MS),
                               .asked = asked};
    if (s->final == JOB_MAY_BEGIN_AGAIN)
        s->final = supervisor_net_final(&s->net);
    order.final = (int)s->final;
    if (s->failed)
        snprintf(order.text, sizeof(order.text), "%.1000s", s->reason.text);
    s->ending = true;
    progress_hide(s->progress);
    s->end_ns = clock_ns();
    s->kill_at_ns = s->end_ns + time_ns;
    supervisor_net_say_end(&s->net, &order);
    if (asked != 0) {
        s->has_grace = true;
        s->at_once = time_ns == 0;
        grace_begin(&s->grace, asked, s->job->options.job.grace_s, s->view_count);
        if (s->local.expected != asked)
            local_ranks_expect(&s->local, asked);
    }
    if (number != 0)
        processes_signal_all(&s->local.processes, s->job->pids, s->job->started, number);
}

/* Of a rank that is named by its place among all: one here, or that of another supervisor. */
static void
end_rank(struct supervisor *s, int rank)
{
    if (rank < s->job->started)
        local_ranks_end(&s->local, rank, RANK_KILLED_WAITING);
    else
        supervisor_net_give_up(&s->net, rank);
}

/* Names the ranks that were killed when the time was over. Of supervisor 0, or the only one. */
void
supervisor_say_late(struct supervisor *s)
{
    char text[GRACE_TEXT_BYTES];
    while (s->has_grace && s->net.job.client == NULL && grace_next_late(&s->grace, s->ranks, text))
        message_line("%s", text);
}

/* Ends ranks that wait in vain. True: there are such ranks, and `text` names them. */
static bool
end_waiting(struct supervisor *s, char text[GRACE_TEXT_BYTES])
{
    bool *ends = xcalloc((size_t)s->view_count, sizeof(*ends));
    bool any = grace_find_ends(&s->grace, s->ranks, ends, text);
    for (int i = 0; i < s->view_count && any; ++i) {
        if (ends[i])
            end_rank(s, i);
    }
    free(ends);
    return any;
}

/* While ranks have the time of --grace. Of supervisor 0, or the only one. */
void
supervisor_use_grace(struct supervisor *s)
{
    char text[GRACE_TEXT_BYTES];
    uint64_t now = clock_ns();
    if (now - s->asked_views_ns >= GRACE_ASK_MS * MS) {
        s->asked_views_ns = now;
        supervisor_net_ask_views(&s->net);
    }
    if (now < s->kill_at_ns && end_waiting(s, text))
        message_line("%s", text);
    supervisor_say_late(s);
}

/* The time of all processes here is over. */
static void
kill_all(struct supervisor *s)
{
    if (s->has_grace && !s->at_once)
        local_ranks_note_late(&s->local);
    processes_signal_all(&s->local.processes, s->job->pids, s->job->started, SIGKILL);
}

/* What ranks have left running gets as much time as it needs to end by itself, not as much as a rank needs to save. */
static void
note_left(struct supervisor *s, uint64_t now)
{
    if (s->has_grace && s->left_until_ns == 0 && local_ranks_all_ended(&s->local))
        s->left_until_ns = now + LEFT_GRACE_NS;
}

/* Returns whether no process is left, here and elsewhere. */
bool
supervisor_step_end(struct supervisor *s)
{
    const pid_t *pids = s->job->pids;
    int started = s->job->started;
    size_t left = started > 0 ? processes_signal_descendants(&s->local.processes, pids, started, 0) : 0;
    uint64_t now = clock_ns();
    note_left(s, now);
    if (left == 0)
        return s->job->server == NULL || supervisor_server_all(s->job->server, PEERS_DONE) ||
               now >= s->kill_at_ns + OTHERS_NS;
    if (now >= s->kill_at_ns || (s->left_until_ns != 0 && now >= s->left_until_ns))
        kill_all(s);
    if (now < s->kill_at_ns + UNKILLABLE_NS)
        return false;
    message_line(
        "%zu processes of the job have not ended after SIGKILL; they hang in the system (a driver or a file server?)",
        left);
    return true;
}

/* ---- a failure ---- */

/* What is known of the culprit, before it is ended; of a rank that is not here, its supervisor is asked. */
void
supervisor_take_report(struct supervisor *s, const struct error *error, int suspect, struct report *report)
{
    const struct report_sources sources = {s->job->started, s->job->status_page, s->crashes, !s->failed};
    *report = (struct report){.of = {{.rank = -1}, {.rank = -1}}};
    /* Of a job that was not started there is nothing to tell but why. */
    if (!s->job->options.quiet && s->net.job.client == NULL && s->error == NULL)
        report_take(report, s->ranks, s->view_count, error->rank, suspect, &sources);
}

/* A rank that ends itself may have seen what another rank's gradient brought, which that rank has not yet reported. */
static void
let_ranks_look(struct supervisor *s)
{
    int rank = s->reason.rank;
    if (rank < 0 || rank >= s->job->started || !s->ranks[rank].ended || s->ranks[rank].signal != 0)
        return;
    nonfinite_begin_looks(s->ranks, s->job->started);
    for (uint64_t until = clock_ns() + LAST_LOOKS_MS * MS;
         !nonfinite_have_looked(s->ranks, s->job->started) && clock_ns() < until; local_ranks_look(&s->local))
        poll(NULL, 0, LAST_LOOKS_STEP_MS);
}

/* The signal, such as SIGUSR1, that was passed on to ranks here or elsewhere; 0: none was. */
static int
find_passed_on(const struct supervisor *s)
{
    int number = s->passed_on;
    for (int i = 0; i < s->view_count && number == 0; ++i)
        number = s->ranks[i].passed_on;
    return number;
}

/*
 * Whether a signal such as SIGUSR1 has asked the ranks to stop, and this failure is how they did it: a rank left with
 * or without an exit code of its own. Then ranks that still save have the time of --grace. A crash is no such end.
 */
static bool
is_stop(const struct supervisor *s, int passed_on, bool has_parted)
{
    int rank = s->reason.rank;
    if (passed_on == 0 || rank < 0 || rank >= s->view_count)
        return false;
    const struct rank_view *view = &s->ranks[rank];
    return has_parted || (view->ended && view->signal == 0 && view->stage != RANK_STAGE_FAILED);
}

/* The end of a job whose ranks were asked to stop. Prints the reason before it: ranks may save for long. */
static void
end_stopped(struct supervisor *s, int passed_on, bool has_parted)
{
    char text[GRACE_TEXT_BYTES];
    supervisor_begin_end(s, 0, passed_on, supervisor_grace_ns(s));
    message_line("%s", s->reason.text);
    s->told = true;
    s->grace.has_parted = has_parted;
    if (has_parted)
        (void)end_waiting(s, text); /* of them the reason speaks */
}

/* `suspect`: a rank that may be why, besides the one of whom the reason speaks; -1: none. */
void
supervisor_fail(struct supervisor *s, int suspect)
{
    char text[GRACE_TEXT_BYTES];
    s->failed = true;
    supervisor_net_refresh(&s->net);
    if (verdict_add_last_right(s->ranks, s->view_count, &s->reason))
        s->final = JOB_STEP_WAS_WRONG;
    int passed_on = find_passed_on(s);
    bool has_parted = passed_on != 0 && s->final != JOB_STEP_WAS_WRONG &&
                      grace_find_parting(s->ranks, s->view_count, passed_on, text);
    if (has_parted)
        snprintf(s->reason.text, sizeof(s->reason.text), "%s", text);
    else
        supervisor_take_report(s, &s->reason, suspect, &s->details);
    for (int i = 0; i < 2; ++i)
        supervisor_net_ask_report(&s->net, s->details.of[i].rank);
    let_ranks_look(s);
    relays_ask_last(s->job->relays, s->reason.rank, NULL, 0);
    if (s->final == JOB_STEP_WAS_WRONG)
        supervisor_begin_end(s, SIGKILL, 0, GRACE_NS); /* what a handler of SIGTERM would save is wrong, too */
    else if (is_stop(s, passed_on, has_parted))
        end_stopped(s, passed_on, has_parted);
    else
        supervisor_begin_end(s, SIGTERM, 0, GRACE_NS);
}
