/*
 * supervisor.c - stays with a running job until its end: waits, watches, ends all ranks when one fails, reports
 * (job.h). supervisor.h names its other files.
 *
 * One thread, woken by signals, the ranks' engines, other supervisors and a clock. Under a cluster's launcher each
 * supervisor has one rank; supervisor 0 judges all, and the others do what it says (supervisor_net.h). It waits for
 * nothing but that; what could block (the terminal, a full pipe) is done by relays in threads of their own.
 */
#include "launcher/supervisor.h"

#include "base/clock.h"
#include "base/message.h"
#include "base/protocol.h"
#include "base/status_page.h"
#include "launcher/common/xcalloc.h"
#include "launcher/output/relay.h"
#include "launcher/start/spawn.h"
#include "launcher/watch/pace.h"
#include "launcher/watch/status_loss.h"
#include "launcher/watch/verdict.h"

#include <poll.h>
#include <sys/wait.h>

enum {
    LOOK_INTERVAL_MS = 100,  /* at the status pages, while ranks run and things happen */
    QUIET_INTERVAL_MS = 500, /* the same while nothing but steps does */
    END_INTERVAL_MS = 20,
    PACE_INTERVAL_MS = 250, /* between looks at which rank the others wait for */
    SIGNAL_COMES_MS = 1000, /* in which a scheduler signals all processes of a job */
};

_Static_assert(2 * UINT64_C(1000000) * SUPERVISOR_SERVER_HEARTBEAT_MS < HANG_SILENCE_NS,
               "a heartbeat arrives before the client counts as silent, also if both ends look half a second late");

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
        if (stacks == NULL)
            continue;
        s->crashes[i] = stacks;
        report_crash_place(stacks, s->ranks[i].crash_place, sizeof(s->ranks[i].crash_place));
    }
}

/* Brings `ranks` up to date. Looks more rarely while nothing happens that could end the job. `news`: elsewhere. */
static void
look(struct supervisor *s, bool news)
{
    memcpy(s->before, s->ranks, (size_t)s->job->started * sizeof(*s->before));
    local_ranks_look(&s->local);
    take_crashes(s);
    xid_watch_look(s->xids);
    empty_input_look(&s->job->empty);
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

/* For a while, that a rank keeps the others waiting is only said. */
static void
warn(struct supervisor *s, const struct error *error)
{
    struct report details;
    supervisor_take_report(s, error, -1, &details);
    message_warning("hang", "%s", error->text);
    report_print(&details, error->text, &s->report_file);
    report_free(&details);
}

/* To the rank here. */
static void
write_wanted(const struct supervisor *s)
{
    if (s->job->started > 0)
        atomic_store(&status_page_rank(s->job->status_page, 0)->buckets_wanted, s->wanted);
}

/* Where each rank has its own supervisor, they see no record of another rank: a rank that could launch buckets for
 * another hears it from here (interpose/engine/core/requests.c). */
static void
tell_wanted(struct supervisor *s)
{
    uint64_t wanted = verdict_buckets_wanted(s->ranks, s->view_count);
    if (s->job->server == NULL || wanted <= s->wanted)
        return;
    s->wanted = wanted;
    supervisor_server_say_wanted(s->job->server, wanted);
    write_wanted(s);
}

/* A scheduler signals the processes of a job one after another: a script around a trainer may have ended by a signal
 * that has not come here yet, and that gives the trainer the time of --grace. */
static bool
signal_may_come(struct supervisor *s, int rank)
{
    if (rank < 0 || rank >= s->view_count || !signals_is_for_end(s->ranks[rank].signal))
        return false;
    if (s->rank_signalled_ns == 0)
        s->rank_signalled_ns = clock_ns();
    return clock_ns() - s->rank_signalled_ns < SIGNAL_COMES_MS * MS;
}

/* All ranks have ended well. A supervisor may have given this one up meanwhile, because this one was stopped: its
 * message about that has not been read yet. */
static void
end_well(struct supervisor *s)
{
    supervisor_net_refresh(&s->net);
    if (supervisor_net_find_error(&s->net, &s->reason))
        supervisor_fail(s, -1);
    else
        supervisor_begin_end(s, SIGTERM, 0, GRACE_NS); /* for what the ranks may have left behind */
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
    tell_wanted(s);
    progress_show(s->progress, s->ranks, s->view_count, now);
    char text[NONFINITE_TEXT_BYTES];
    if (nonfinite_judge(s->ranks, s->view_count, now, text))
        message_warning("nonfinite", "%s; the run continues, and --stop-on-nan ends it", text);
    metrics_look(s->metrics, s->ranks, s->view_count, now);
    if (judgement == JUDGED_FAILED && signal_may_come(s, error.rank))
        judgement = JUDGED_IN_DOUBT;
    bool is_of_rank = judgement == JUDGED_FAILED && !supervisor_net_has_reason(&s->net, error.rank);
    if (!is_of_rank && supervisor_net_find_error(&s->net, &s->reason)) {
        supervisor_fail(s, -1);
        return;
    }
    /* A rank that waits for a reader does not hang; the watch takes a long time without a look as a pause (hang.c). */
    if (judgement == JUDGED_GOES_ON &&
        !output_stall_look(&s->stall, now, options_hang_warning_s(&s->job->options) * (1000 * MS)))
        judgement = judge_running(s->judge, s->ranks, now, &error);
    if (judgement == JUDGED_WARNING) {
        warn(s, &error);
    } else if (judgement == JUDGED_OVER) {
        end_well(s);
    } else if (judgement == JUDGED_FAILED) {
        s->reason = error;
        supervisor_fail(s, judge_suspect(s->judge, s->ranks, now));
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
    if (client->wanted > s->wanted) {
        s->wanted = client->wanted;
        write_wanted(s);
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
        supervisor_fail(s, -1);
    } else if (client->end) {
        s->failed = s->told = true;
        s->reason.exit_code = client->ending.exit_code;
        s->interrupted = client->ending.asked != 0 && !signals_is_for_ranks(client->ending.asked);
        supervisor_begin_end(s, client->ending.signal, client->ending.asked, (uint64_t)client->ending.grace_ms * MS);
    } else if (supervisor_net_find_error(&s->net, &s->reason)) {
        supervisor_net_say_error(&s->net, &s->reason, 0, JOB_MAY_BEGIN_AGAIN);
        s->told = client->lost == NULL;
        supervisor_fail(s, -1);
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
    supervisor_fail(s, -1);
}

/* ---- waiting ---- */

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

/* ---- all of it ---- */

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
        .xids = xid_watch_new(&job->devices, job->started, job->place.first_rank),
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
        .report_file = {.wanted = options->report,
                        .folder = options->output == OUTPUT_FILES ? options->output_dir : NULL},
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
    supervisor_begin_end(s, SIGTERM, 0, GRACE_NS);
}

static void
close_supervisor(struct supervisor *s)
{
    supervisor_net_close(&s->net);
    free(s->local.seen);
    preload_watch_free(s->watch);
    xid_watch_free(s->xids);
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
        if (!supervisor_take_signals(&s) && elsewhere != 0 && !s.ending)
            supervisor_interrupt(&s, elsewhere);
        look(&s, news);
        if (!s.ending && status_loss_found())
            end_without_status(&s);
        if (job->is_client)
            follow_root(&s);
        else if (!s.ending)
            judge_job(&s);
        else if (s.has_grace)
            supervisor_use_grace(&s);
        over = s.ending && supervisor_step_end(&s);
    }
    guardian_forget_groups();
    look(&s, false); /* how the last of them have ended */
    supervisor_say_late(&s);
    supervisor_finish(&s);
    processes_reap();
    int64_t others_ms = s.has_grace ? (int64_t)s.job->options.job.grace_s * 1000 : 0;
    int exit_code = supervisor_net_leave(&s.net, s.failed ? s.reason.exit_code : 0, others_ms);
    job->interrupted = s.interrupted;
    job->final = s.final;
    close_supervisor(&s);
    return exit_code;
}
