/*
 * supervisor.c - stays with a running job until its end: waits, watches, ends all ranks when one fails, reports
 * (job.h).
 *
 * One thread, woken by signals, the ranks' engines, other supervisors and a clock. Under a cluster's launcher each
 * supervisor has one rank; supervisor 0 judges all, and the others do what it says (supervisor_net.h). It waits for
 * nothing but that; what could block (the terminal, a full pipe) is done by relays in threads of their own.
 */
#include "launcher/job.h"

#include "base/clock.h"
#include "base/message.h"
#include "base/protocol.h"
#include "base/status_page.h"
#include "launcher/cluster/supervisor_net.h"
#include "launcher/common/xcalloc.h"
#include "launcher/output/output.h"
#include "launcher/output/relay.h"
#include "launcher/report/closing.h"
#include "launcher/report/metrics.h"
#include "launcher/report/progress.h"
#include "launcher/report/report.h"
#include "launcher/report/summary.h"
#include "launcher/start/spawn.h"
#include "launcher/watch/grace.h"
#include "launcher/watch/hang.h"
#include "launcher/watch/local_ranks.h"
#include "launcher/watch/pace.h"
#include "launcher/watch/processes.h"
#include "launcher/watch/status_loss.h"
#include "launcher/watch/verdict.h"

#include <poll.h>
#include <sys/wait.h>

enum {
    LOOK_INTERVAL_MS = 100,  /* at the status pages, while ranks run and things happen */
    QUIET_INTERVAL_MS = 500, /* the same while nothing but steps does */
    END_INTERVAL_MS = 20,
    PACE_INTERVAL_MS = 250,  /* between looks at which rank the others wait for */
    MESSAGE_DELAY_MS = 1000, /* for which the reason of a failure waits for the ranks' last output, */
    LAST_WORDS_MS = 1000,    /* and for which it is waited for itself once the user wants the end */
    LAST_LOOKS_MS = 500, /* for which the other ranks' looks at their gradients are waited for, if one ended itself */
    LAST_LOOKS_STEP_MS = 5,
    SAME_SIGNAL_MS = 20, /* in which a signal that comes twice is one */
    GRACE_ASK_MS = 500,  /* between questions for views of this moment, while ranks save their work */
};

#define MS       1000000ull
#define GRACE_NS (PROCESSES_GRACE_MS * MS)
#define LEFT_GRACE_NS \
    (5000 * MS) /* for what ranks have left running, after a signal; and for a reader of their output */
#define UNKILLABLE_NS (PROCESSES_UNKILLABLE_MS * MS)
#define OTHERS_NS     (4000 * MS) /* for other supervisors to report, and to say that nothing is left of their ranks */

_Static_assert(2 * UINT64_C(1000000) * SUPERVISOR_SERVER_HEARTBEAT_MS < HANG_SILENCE_NS,
               "a heartbeat arrives before the client counts as silent, also if both ends look half a second late");

struct supervisor {
    struct job *job;
    const struct error *error; /* why it could not be started, and ends at once; or NULL */
    struct local_ranks local;
    struct supervisor_net net;
    struct rank_view *ranks; /* [view_count]: of the whole job, or of this supervisor's rank */
    int view_count;
    struct rank_view *before; /* scratch of look() */
    int interval_ms;
    uint64_t looked_ns, paced_ns;
    struct judge *judge;
    struct preload_watch *watch;
    struct output_stall stall;
    struct progress *progress; /* NULL: none is shown */
    struct metrics *metrics;   /* NULL: none are written */
    struct side_file summary, trace, page;
    bool ending, hurried;  /* hurried: a signal asked for the end, so no reader is waited for long */
    bool interrupted;      /* that is why it ends */
    enum job_final final;  /* whether the job may begin again */
    int passed_on;         /* the last signal that was passed on to the ranks, such as SIGUSR1; 0: none was */
    unsigned *left_out;    /* [started]: of each rank, bit N - 1: signal N was not sent, and that was said */
    bool has_grace;        /* ranks were asked to stop, and have the time of --grace */
    struct grace grace;    /* with has_grace */
    bool at_once;          /* the user has asked for the end at once */
    uint64_t signalled_ns; /* when the first signal that asks for the end came here; 0: none has */
    uint64_t asked_views_ns;
    uint64_t begin_ns, end_ns, kill_at_ns;
    uint64_t left_until_ns; /* when what is left of ranks that have ended is killed; 0: not yet known */
    bool failed;            /* `reason` holds why */
    uint64_t judged;        /* the last step that the ranks were told that all have judged right (tell_judged()) */
    bool told;              /* the user knows it already */
    struct report details;  /* below the reason, if it is anything */
    char **crashes;         /* [view_count]: stacks of ranks here that have crashed; NULL: it has not */
    struct report_file report_file;
    struct error reason; /* .exit_code is the job's in any case */
};

/* ---- ending ---- */

static uint64_t
grace_ns(const struct supervisor *s)
{
    return s->job->options.job.grace_s * (1000 * MS);
}

/* Of all ranks: supervisor 0 also tells the others. `number`: the signal for ranks, 0: none; `asked`: the one that has
 * asked them to stop, 0: none has. */
static void
begin_end(struct supervisor *s, int number, int asked, uint64_t time_ns)
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
static void
say_late(struct supervisor *s)
{
    char text[GRACE_TEXT_BYTES];
    while (s->has_grace && s->net.job.client == NULL && grace_next_late(&s->grace, s->ranks, text))
        message_line("%s", text);
}

/* Ends ranks that wait in vain. True: there are such ranks, and `text` says so. */
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
static void
use_grace(struct supervisor *s)
{
    char text[GRACE_TEXT_BYTES];
    uint64_t now = clock_ns();
    if (now - s->asked_views_ns >= GRACE_ASK_MS * MS) {
        s->asked_views_ns = now;
        supervisor_net_ask_views(&s->net);
    }
    if (now < s->kill_at_ns && end_waiting(s, text))
        message_line("%s", text);
    say_late(s);
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
static bool
step_end(struct supervisor *s)
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

/* ---- what is known of the ranks ---- */

/* What the engines of the ranks here said on their links, which wait_for_something() has read. */
static void
hear_engines(void *data, struct rank_view *views, int count)
{
    const struct job *job = data;
    for (int i = 0; i < count && i < job->link.count; ++i) {
        views[i].connected = job->link.slots[i].joined;
        views[i].severed = views[i].connected && job->link.slots[i].fd < 0;
    }
}

/* Ends of ranks elsewhere come in the order in which they are reported. */
static void
order_ends(struct supervisor *s)
{
    for (int i = 0; i < s->view_count; ++i) {
        if (s->ranks[i].ended && s->ranks[i].order == 0)
            s->ranks[i].order = s->local.order;
    }
}

/* A rank that has crashed waits for that. While the job ends, it is not kept waiting. */
static void
take_crashes(struct supervisor *s)
{
    for (int i = 0; i < s->job->started; ++i) {
        struct rank_status *status = status_page_rank(s->job->status_page, i);
        bool is_wanted = !s->ending && !s->job->options.quiet && s->crashes[i] == NULL;
        char *stacks = report_crash(&s->ranks[i], status, is_wanted);
        s->crashes[i] = stacks != NULL ? stacks : s->crashes[i];
    }
}

/* Brings `ranks` up to date. Looks more rarely while nothing happens that could end the job. `news`: elsewhere. */
static void
look(struct supervisor *s, bool news)
{
    memcpy(s->before, s->ranks, (size_t)s->job->started * sizeof(*s->before));
    local_ranks_look(&s->local);
    take_crashes(s);
    for (int i = 0; i < s->job->started; ++i) {
        struct rank_view *view = &s->ranks[i];
        if (!s->ending && !s->before[i].ended && (view->exit_code != 0 || view->signal != 0))
            relays_ask_last(s->job->relays, s->job->place.first_rank + i, view->last_line, sizeof(view->last_line));
        news = news || rank_view_is_urgent(&s->before[i], view);
    }
    int slower_ms = s->interval_ms + s->interval_ms / 4;
    s->interval_ms = news ? LOOK_INTERVAL_MS : slower_ms < QUIET_INTERVAL_MS ? slower_ms : QUIET_INTERVAL_MS;
    s->looked_ns = clock_ns();
    order_ends(s);
}

/* ---- judging ---- */

/* What is known of the culprit, before it is ended; of a rank that is not here, its supervisor is asked. */
static void
take_report(struct supervisor *s, const struct error *error, int suspect, struct report *report)
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

/*
 * Whether a signal such as SIGUSR1 has asked the ranks to stop, and this failure is how they did it: a rank left with
 * or without an exit code of its own. Then ranks that still save have the time of --grace. A crash is no such end.
 */
static bool
is_stop(const struct supervisor *s, bool has_parted)
{
    int rank = s->reason.rank;
    if (s->passed_on == 0 || rank < 0 || rank >= s->view_count)
        return false;
    const struct rank_view *view = &s->ranks[rank];
    return has_parted || (view->ended && view->signal == 0 && view->stage != RANK_STAGE_FAILED);
}

/* The end of a job whose ranks were asked to stop. Prints the reason before it: ranks may save for long. */
static void
end_stopped(struct supervisor *s, bool has_parted)
{
    char text[GRACE_TEXT_BYTES];
    begin_end(s, 0, s->passed_on, grace_ns(s));
    message_line("%s", s->reason.text);
    s->told = true;
    s->grace.has_parted = has_parted;
    if (has_parted)
        (void)end_waiting(s, text); /* of them the reason speaks */
}

/* `suspect`: a rank that may be why, besides the one of whom the reason speaks; -1: none. */
static void
fail(struct supervisor *s, int suspect)
{
    char text[GRACE_TEXT_BYTES];
    s->failed = true;
    supervisor_net_refresh(&s->net);
    if (verdict_add_last_right(s->ranks, s->view_count, &s->reason))
        s->final = JOB_STEP_WAS_WRONG;
    bool has_parted = s->passed_on != 0 && grace_find_parting(s->ranks, s->view_count, s->passed_on, text);
    if (has_parted)
        snprintf(s->reason.text, sizeof(s->reason.text), "%s", text);
    else
        take_report(s, &s->reason, suspect, &s->details);
    for (int i = 0; i < 2; ++i)
        supervisor_net_ask_report(&s->net, s->details.of[i].rank);
    let_ranks_look(s);
    relays_ask_last(s->job->relays, s->reason.rank, NULL, 0);
    if (s->final == JOB_STEP_WAS_WRONG)
        begin_end(s, SIGKILL, 0, GRACE_NS); /* what a handler of SIGTERM would save is wrong, too */
    else if (is_stop(s, has_parted))
        end_stopped(s, has_parted);
    else
        begin_end(s, SIGTERM, 0, GRACE_NS);
}

/* For a while, that a rank keeps the others waiting is only said. */
static void
warn(struct supervisor *s, const struct error *error)
{
    struct report details;
    take_report(s, error, -1, &details);
    message_warning("hang", "%s", error->text);
    report_print(&details, error->text, &s->report_file);
    report_free(&details);
}

/* To the rank here. */
static void
write_judged(const struct supervisor *s, uint64_t judged)
{
    if (s->job->started > 0)
        atomic_store(&status_page_rank(s->job->status_page, 0)->all_judged, judged);
}

/* Where each rank has its own supervisor, they see no record of another rank: a rank that waits until all have judged a
 * step hears it from here (interpose/engine/core/judgement.c). */
static void
tell_judged(struct supervisor *s)
{
    if (s->job->server == NULL || !verdict_judged_is_asked(s->ranks, s->view_count, s->judged))
        return;
    uint64_t judged = verdict_judged(s->ranks, s->view_count);
    if (judged > s->judged) {
        s->judged = judged;
        supervisor_server_say_judged(s->job->server, judged);
        write_judged(s, judged);
    }
    if (verdict_judged_is_asked(s->ranks, s->view_count, s->judged))
        supervisor_server_ask_views(s->job->server);
}

static void
judge_job(struct supervisor *s)
{
    struct error error;
    uint64_t now = clock_ns();
    enum judgement judgement = judge_ends(s->judge, s->ranks, now, &error);
    if (now - s->paced_ns >= PACE_INTERVAL_MS * MS) {
        s->paced_ns = now;
        pace_note(s->ranks, s->view_count);
    }
    tell_judged(s);
    progress_show(s->progress, s->ranks, s->view_count, now);
    char text[NONFINITE_TEXT_BYTES];
    if (nonfinite_judge(s->ranks, s->view_count, now, text))
        message_warning("nonfinite", "%s; the run continues, and --stop-on-nan ends it", text);
    metrics_look(s->metrics, s->ranks, s->view_count, now);
    bool is_of_rank = judgement == JUDGED_FAILED && !supervisor_net_has_reason(&s->net, error.rank);
    if (!is_of_rank && supervisor_net_find_error(&s->net, &s->reason)) {
        fail(s, -1);
        return;
    }
    /* A rank that waits for a reader does not hang; the watch takes a long time without a look as a pause (hang.c). */
    if (judgement == JUDGED_GOES_ON &&
        !output_stall_look(&s->stall, now, options_hang_warning_s(&s->job->options) * (1000 * MS)))
        judgement = judge_running(s->judge, s->ranks, now, &error);
    if (judgement == JUDGED_WARNING) {
        warn(s, &error);
    } else if (judgement == JUDGED_OVER) {
        begin_end(s, SIGTERM, 0, GRACE_NS); /* for what the ranks may have left behind */
    } else if (judgement == JUDGED_FAILED) {
        s->reason = error;
        fail(s, judge_suspect(s->judge, s->ranks, now));
    }
}

/* Tells supervisor 0 what is known of the rank here. */
static void
answer(struct supervisor *s, struct supervisor_client *client)
{
    char *text = xcalloc(1, REPORT_BYTES);
    struct report_subject subject = {
        .rank = s->job->cluster.rank, .view = &s->ranks[0], .stacks = client->asked_stacks};
    if (s->job->started > 0) {
        subject.status = status_page_rank(s->job->status_page, 0);
        subject.crash = s->crashes[0];
    }
    relays_ask_last(s->job->relays, subject.rank, NULL, 0);
    report_rank(&subject, text, REPORT_BYTES);
    supervisor_client_say_report(client, text);
    free(text);
}

/* What supervisor 0 has said, of a job that ends here already, because of a signal that came here first. */
static void
obey_later(struct supervisor *s, const struct supervisor_client *client)
{
    uint64_t kill_at_ns = client->end_ns + (uint64_t)client->ending.grace_ms * MS;
    if (!client->end)
        return;
    s->at_once = s->at_once || client->ending.signal == SIGKILL;
    s->kill_at_ns = kill_at_ns < s->kill_at_ns ? kill_at_ns : s->kill_at_ns;
}

/* A supervisor that is not the first does what supervisor 0 says, and judges nothing but whether that is there. */
static void
follow_root(struct supervisor *s)
{
    struct supervisor_client *client = s->net.job.client;
    if (client->asked_view)
        supervisor_client_say_view(client, &s->ranks[0]);
    if (client->judged > s->judged) {
        s->judged = client->judged;
        write_judged(s, s->judged);
    }
    if (client->asked) /* before its rank is ended */
        answer(s, client);
    if (client->give_up && s->ranks[0].killed == RANK_KILLED_NOT)
        local_ranks_end(&s->local, 0, RANK_KILLED_WAITING);
    if (s->ending) {
        obey_later(s, client);
    } else if (client->end && client->ending.exit_code == 0 && !s->ranks[0].ended) {
        error_set(
            &s->reason, DDPRUN_EXIT_FAILURE,
            "rank %d is still running, but the ddprun of rank 0 reports that all ranks have ended well; ending it",
            client->rank);
        fail(s, -1);
    } else if (client->end) {
        s->failed = s->told = true;
        s->reason.exit_code = client->ending.exit_code;
        s->interrupted = client->ending.asked != 0 && !signals_is_for_ranks(client->ending.asked);
        begin_end(s, client->ending.signal, client->ending.asked, (uint64_t)client->ending.grace_ms * MS);
    } else if (supervisor_net_find_error(&s->net, &s->reason)) {
        supervisor_net_say_error(&s->net, &s->reason, 0, JOB_MAY_BEGIN_AGAIN);
        s->told = client->lost == NULL;
        fail(s, -1);
    }
}

/* What the ranks say is gone with the file. */
static void
end_without_status(struct supervisor *s)
{
    error_set(
        &s->reason, DDPRUN_EXIT_FAILURE,
        "the job's status file in %s was cut short while the job ran, by the program or by a cleaner of temporary "
        "files; keep both away from that folder, or set TMPDIR",
        s->job->folder.path);
    supervisor_net_say_error(&s->net, &s->reason, 0, JOB_MAY_BEGIN_AGAIN);
    s->told = s->net.job.client != NULL;
    fail(s, -1);
}

/* ---- signals and waiting ---- */

/*
 * Whether a signal that comes here while ranks have the time of --grace asks for the end at once: not if it is the
 * first here, because a scheduler sends one to each ddprun of a job, and the job ends by whichever comes first; nor in
 * the same moment as the first, as timeout(1) sends one to the process and one to its group.
 */
static bool
is_second(struct supervisor *s)
{
    uint64_t now = clock_ns(), first_ns = s->signalled_ns;
    if (first_ns == 0)
        s->signalled_ns = now;
    return first_ns != 0 && now - first_ns >= SAME_SIGNAL_MS * MS;
}

static void
end_at_once(struct supervisor *s)
{
    struct peer_order order = {.exit_code = s->reason.exit_code, .signal = SIGKILL};
    s->at_once = true;
    s->kill_at_ns = clock_ns();
    supervisor_net_say_end(&s->net, &order);
}

/* By a signal here, or at another supervisor. */
static void
interrupt(struct supervisor *s, int number)
{
    s->hurried = true;
    helper_hurry();
    s->failed = s->interrupted = true;
    s->failed = s->interrupted = true;
    error_set(&s->reason, 128 + number, "SIG%s: ending %d rank%s (once more: at once)", sigabbrev_np(number),
              s->view_count, s->view_count == 1 ? "" : "s");
    supervisor_net_say_error(&s->net, &s->reason, number, JOB_MAY_BEGIN_AGAIN);
    begin_end(s, number == SIGQUIT ? SIGTERM : number, number, grace_ns(s));
    if (s->net.job.client == NULL)
        message_line("%s", s->reason.text);
    s->told = true;
}

static void
end_as_orphan(struct supervisor *s)
{
    if (s->ending)
        return;
    error_set(&s->reason, 128 + SIGKILL,
              "the first ddprun of this host, which started those of its ranks, is gone; was it killed?");
    s->final =
        JOB_HOST_WAS_KILLED; /* its user, or a scheduler, sees that it was killed, and starts it again as a new job */
    supervisor_net_say_error(&s->net, &s->reason, 0, s->final);
    s->told = s->net.job.client != NULL;
    fail(s, -1);
}

static void
suspend(const struct supervisor *s)
{
    progress_hide(s->progress);
    processes_signal_groups(s->job->pids, s->job->started, SIGSTOP);
    raise(SIGSTOP);
    processes_signal_groups(s->job->pids, s->job->started, SIGCONT);
}

/* A signal has come that asks for the end. Returns whether it changes anything. */
static bool
take_end(struct supervisor *s, int number)
{
    bool again = is_second(s);
    if (!s->ending) {
        interrupt(s, number);
        return true;
    }
    if (s->has_grace && !again)
        return false;
    s->hurried = true;
    helper_hurry();
    end_at_once(s);
    return true;
}

/* Passes on a signal that is the ranks' own. One that would only end a rank is not sent, and that is said once. */
static void
pass_on(struct supervisor *s, int number)
{
    local_ranks_expect(&s->local, number);
    s->passed_on = number;
    for (int i = 0; i < s->job->started; ++i) {
        pid_t left_out = local_ranks_signal(&s->local, i, number);
        if (left_out == 0 || (s->left_out[i] >> number & 1) != 0)
            continue;
        s->left_out[i] |= 1U << number;
        message_line("rank %d (process %d) has no handler for SIG%s: it was not sent, because it would end the rank",
                     s->job->place.first_rank + i, (int)left_out, sigabbrev_np(number));
    }
}

/* Returns whether a signal came that asks for the end. */
static bool
take_signals(struct supervisor *s)
{
    bool asked = false;
    for (int number; (number = signals_next(&s->job->signals)) != 0;) {
        if (number == SIGTSTP) {
            suspend(s);
        } else if (signals_is_for_ranks(number)) {
            pass_on(s, number);
        } else if (number == SIGNALS_ORPHANED && signals_is_orphaned(&s->job->signals)) {
            end_as_orphan(s);
        } else if (number != SIGCHLD) {
            asked = take_end(s, number) || asked;
        }
    }
    return asked;
}

/* Ends of processes come as signals; a look at all of the machine's costs something. */
static int
interval_ms(const struct supervisor *s)
{
    if (!s->ending)
        return s->interval_ms;
    return s->has_grace && clock_ns() < s->kill_at_ns ? LOOK_INTERVAL_MS : END_INTERVAL_MS;
}

/* Returns whether it is time to look: what hundreds of clients and engines say is read at once, and looked at
 * together. */
static bool
wait_for_something(struct supervisor *s)
{
    struct pollfd polled[3 + SUPERVISOR_NET_FDS] = {
        {.fd = s->job->signals.fd, .events = POLLIN},
        {.fd = s->job->link.epoll, .events = POLLIN},
    };
    terminal_input_poll(&s->job->input, &polled[2]);
    if (s->ending) /* input does not matter any more */
        polled[2].fd = -1;
    supervisor_net_poll(&s->net, &polled[3]);
    int ready = poll(polled, 3 + SUPERVISOR_NET_FDS, interval_ms(s));
    if (!s->ending)
        terminal_input_move(&s->job->input, &polled[2]);
    bool messages = polled[1].revents != 0 || s->job->server != NULL;
    bool asked = engine_link_step(&s->job->link);
    ready -= (polled[1].revents != 0) + (polled[3 + SUPERVISOR_NET_PEERS].revents != 0);
    return s->ending || !messages || asked || ready > 0 || clock_ns() - s->looked_ns >= LOOK_INTERVAL_MS * MS;
}

/* ---- the end ---- */

/* Waits until both relays have left or the time is up; a signal that asks for the end gives up at once. */
static bool
relays_left(struct supervisor *s, uint64_t until_ns)
{
    for (;;) {
        struct pollfd polled[3] = {{.fd = s->job->signals.fd, .events = POLLIN}, {.fd = -1}, {.fd = -1}};
        int open = 0;
        for (int i = 0; i < 2; ++i) {
            struct pollfd left = {.fd = s->job->relays[i] != NULL ? relay_fd(s->job->relays[i]) : -1, .events = POLLIN};
            if (left.fd < 0 || poll(&left, 1, 0) == 1)
                continue;
            polled[1 + i] = left;
            ++open;
        }
        if (open == 0)
            return true;
        uint64_t now = clock_ns();
        if (now >= until_ns || take_signals(s))
            return false;
        uint64_t wait_ms = (until_ns - now) / MS + 1;
        poll(polled, 3, wait_ms < 1000000 ? (int)wait_ms : 1000000);
    }
}

/* There is a core for each rank, and nothing says which. */
static bool
is_unbound(const struct job *job)
{
    cpu_set_t own;
    return !job->in_cluster && job->place.world_size > 1 && strcmp(job->placement.what, "none") == 0 &&
           sched_getaffinity(0, sizeof(own), &own) == 0 && job->place.world_size <= CPU_COUNT(&own);
}

static void
close_job(const struct supervisor *s, double seconds)
{
    struct closing closing = {
        .ranks = s->ranks,
        .rank_count = s->view_count,
        .seconds = seconds,
        .restarts = s->job->restarts,
        .summary = !s->job->options.quiet,
        .verbose = s->job->options.verbose,
        .unbound = is_unbound(s->job),
        .interrupted = s->interrupted,
    };
    closing_say(&closing, message_line);
}

/* Also where no file is wanted: a restart tells the next attempt of this one. */
static void
summarize(struct supervisor *s, double seconds)
{
    struct summary summary = {
        .ranks = s->ranks,
        .rank_count = s->view_count,
        .exit_code = s->failed ? s->reason.exit_code : 0,
        .reason = s->failed ? s->reason.text : NULL,
        .seconds = seconds,
        .restarts = s->job->restarts,
        .unbound = is_unbound(s->job),
        .attempts = s->job->attempts,
        .grace_s = s->job->options.job.grace_s,
        .signal = s->has_grace ? s->grace.signal : 0,
    };
    const struct trace_summary trace = {&s->job->options, s->job->begun_unix_ns, &summary};
    summary_write(&s->summary, &summary);
    side_file_do(&s->trace, trace_summary_add, &trace);
    metrics_end(s->metrics, s->ranks, s->view_count, summary.exit_code, summary.signal);
    char *attempts = summary_attempts(&summary);
    free(s->job->attempts);
    s->job->attempts = attempts;
}

/* Whether the launcher brings the output of all hosts to one place. */
static bool
has_common_output(enum launched_by by)
{
    return by == LAUNCHED_BY_PMIX || by == LAUNCHED_BY_SLURM || by == LAUNCHED_BY_MPI;
}

/* Whether users see what this ddprun prints, and not what that of rank 0 does: this is the first one on another host.
 */
static bool
speaks_for_other_host(const struct job *job)
{
    const struct handshake *handshakes = job->handshakes;
    if (has_common_output(job->launched.by))
        return false;
    for (int i = 0; i < job->cluster.rank; ++i) {
        if (strcmp(handshakes[i].host_id, handshakes[job->cluster.rank].host_id) == 0)
            return false;
    }
    return true;
}

/* Supervisor 0 says why the job ends. Where its line is not seen, this one repeats it; what supervisor 0 did not answer
 * to, it may not have said. */
static void
report_on_client(struct supervisor *s)
{
    const struct supervisor_client *client = s->net.job.client;
    bool is_answered = supervisor_net_await_end(&s->net);
    bool has_reason = client->end && client->ending.text[0] != '\0';
    if (has_reason && !s->hurried && speaks_for_other_host(s->job))
        message_line("the ddprun of rank 0 (host %s) ends the job: %s", s->job->handshakes[0].host,
                     client->ending.text);
    else if (!s->told || !is_answered)
        message_line("%s", s->reason.text);
}

static void
report_on_ranks(struct supervisor *s)
{
    if (s->net.job.client != NULL) {
        report_on_client(s);
        return;
    }
    double seconds = (double)(clock_ns() - s->begin_ns) * 1e-9;
    char text[NONFINITE_TEXT_BYTES];
    bool has_failed = s->failed && !s->interrupted;
    if (nonfinite_last(s->ranks, s->view_count, has_failed, text))
        message_warning("nonfinite", "%s%s", text,
                        has_failed ? "" : "; the run has continued, and --stop-on-nan ends it");
    if (!s->failed || s->interrupted)
        close_job(s, seconds);
    else if (!s->told)
        message_line("%s", s->reason.text);
    if (s->hurried)
        closing_say_unaveraged(s->ranks, s->view_count, message_line);
    for (int i = 0; i < 2; ++i) {
        const char *from_there = supervisor_net_report(&s->net, s->details.of[i].rank);
        if (from_there != NULL)
            report_put(&s->details, s->details.of[i].rank, from_there);
    }
    report_print(&s->details, s->reason.text, &s->report_file);
    summarize(s, seconds);
}

/* That there is no page does not change how the job ended. */
static int
make_page(const void *data)
{
    const struct job *job = data;
    struct error error;
    helper_takes_time();
    if (!job->make_page(job->options.job.trace_dir, job->options.page, "--page", &error))
        message_line("no page, in --page: %s", error.text);
    return 0;
}

static int
warn_full(const void *data)
{
    const struct options *options = data;
    output_warn_full(options, options->job.trace_dir[0] != '\0' ? options->job.trace_dir : NULL);
    return 0;
}

/* What summarize() has begun, and the page, which is made of all that the trace has. */
static void
finish_files(struct supervisor *s)
{
    side_file_look(&s->trace, true);
    side_file_do(&s->page, make_page, s->job);
    metrics_free(s->metrics);
    s->metrics = NULL;
    side_file_look(&s->summary, true);
    side_file_look(&s->page, true);
    if (s->job->options.output == OUTPUT_FILES || s->trace.path != NULL)
        (void)helper_do(warn_full, &s->job->options); /* a place that does not answer is not warned of */
}

/* Until when a reader of the ranks' output is waited for, once the end was asked for: some seconds, but not longer than
 * ranks were given to end, less the time for ddprun's own last messages. */
static uint64_t
last_read_ns(const struct supervisor *s)
{
    uint64_t until_ns = s->end_ns + LEFT_GRACE_NS;
    return (until_ns < s->kill_at_ns ? until_ns : s->kill_at_ns) - LAST_WORDS_MS * MS;
}

/* The reason stands below the ranks' last output, unless its reader delays that output. The reader is waited for,
 * however slow, unless the end was asked for (last_read_ns()). */
static void
supervisor_finish(struct supervisor *s)
{
    for (int i = 0; i < 2; ++i) {
        if (s->job->relays[i] != NULL)
            relay_finish(s->job->relays[i]);
    }
    bool left = relays_left(s, clock_ns() + MESSAGE_DELAY_MS * MS);
    report_on_ranks(s);
    if (!left && !s->hurried)
        left = relays_left(s, UINT64_MAX);
    if (!left)
        left = relays_left(s, last_read_ns(s));
    if (!left)
        message_line("the last output of the ranks was not read, and is lost");
    for (int i = 0; i < 2; ++i) {
        if (left)
            relay_free(s->job->relays[i]);
        else
            relay_abandon(s->job->relays[i]);
    }
    finish_files(s);
    (void)take_signals(s); /* one that came meanwhile */
    messages_close(&s->job->messages, &s->job->signals, s->hurried, LAST_WORDS_MS);
}

static void
open_supervisor(struct supervisor *s, struct job *job, const struct error *error)
{
    const struct options *options = &job->options;
    int count = job->server != NULL ? job->cluster.world_size : job->started > 0 ? job->started : 1;
    struct hang_limits limits = {options_hang_warning_s(options) * (1000 * MS), options->hang_timeout_s * (1000 * MS)};
    struct supervisor_net_job net = {.cluster = job->in_cluster ? &job->cluster : NULL,
                                     .server = job->server,
                                     .client = job->is_client ? &job->client : NULL,
                                     .link = &job->link,
                                     .handshakes = job->handshakes,
                                     .rank_count = job->started};
    *s = (struct supervisor){
        .job = job,
        .error = error,
        .view_count = count,
        .ranks = xcalloc((size_t)count, sizeof(*s->ranks)),
        .before = xcalloc((size_t)count, sizeof(*s->before)),
        .crashes = xcalloc((size_t)count, sizeof(*s->crashes)),
        .left_out = xcalloc((size_t)count, sizeof(*s->left_out)),
        .watch = preload_watch_new(job->started, clock_ns()),
        .begin_ns = clock_ns(),
        .interval_ms = LOOK_INTERVAL_MS,
        .judge = judge_new(count, &limits, clock_ns()),
        .progress = progress_new(options->quiet || job->is_client ? PROGRESS_OFF : options->progress),
        .metrics = metrics_new(job->is_client ? NULL : options->metrics, options->program[0], job->restarts,
                               options->job.grace_s),
        .summary = summary_file(options->summary_json),
        .trace = {options->job.trace_dir[0] != '\0' ? options->job.trace_dir : NULL, "--trace",
                  .loss = "the trace lacks its summary"},
        .page = {job->is_client || error != NULL ? NULL : options->page, "--page", .loss = "there is no page"},
        .details = {.of = {{.rank = -1}, {.rank = -1}}},
        .report_file = {.wanted = options->report},
    };
    s->local = (struct local_ranks){.count = job->started,
                                    .pids = job->pids,
                                    .status_page = job->status_page,
                                    .hear_engines = hear_engines,
                                    .data = job,
                                    .watch = s->watch,
                                    .views = s->ranks};
    local_ranks_place(&s->local, (const char *const *)job->devices.visible, job->devices.softgpu);
    supervisor_net_open(&s->net, &net, s->ranks);
    if (error == NULL)
        return;
    s->reason = *error;
    s->told = job->is_client;
    supervisor_net_say_error(&s->net, &s->reason, 0, JOB_MAY_BEGIN_AGAIN);
    s->failed = true;
    begin_end(s, SIGTERM, 0, GRACE_NS);
}

static void
close_supervisor(struct supervisor *s)
{
    supervisor_net_close(&s->net);
    free(s->local.seen);
    preload_watch_free(s->watch);
    process_list_free(&s->local.processes);
    free(s->before);
    for (int i = 0; i < s->job->started; ++i)
        free(s->crashes[i]);
    free(s->crashes);
    free(s->left_out);
    grace_free(&s->grace);
    judge_free(s->judge);
    report_free(&s->details);
    report_file_free(&s->report_file);
    progress_free(s->progress);
    free(s->ranks);
}

int
supervisor_run(struct job *job, const struct error *error)
{
    struct supervisor s;
    open_supervisor(&s, job, error);
    for (bool over = false; !over;) {
        bool due = wait_for_something(&s), news = supervisor_net_step(&s.net);
        if (!due && !news)
            continue;
        int elsewhere = s.ending ? 0 : supervisor_net_signal(&s.net);
        if (!take_signals(&s) && elsewhere != 0 && !s.ending)
            interrupt(&s, elsewhere);
        look(&s, news);
        if (!s.ending && status_loss_found())
            end_without_status(&s);
        if (job->is_client)
            follow_root(&s);
        else if (!s.ending)
            judge_job(&s);
        else if (s.has_grace)
            use_grace(&s);
        over = s.ending && step_end(&s);
    }
    guardian_forget_groups();
    look(&s, false); /* how the last of them have ended */
    say_late(&s);
    supervisor_finish(&s);
    processes_reap();
    int64_t others_ms = s.has_grace ? (int64_t)s.job->options.job.grace_s * 1000 : 0;
    int exit_code = supervisor_net_leave(&s.net, s.failed ? s.reason.exit_code : 0, others_ms);
    job->interrupted = s.interrupted;
    job->final = s.final;
    close_supervisor(&s);
    return exit_code;
}
