/*
 * supervisor_report.c - the last words of a job: the ranks' last output, reason, report, closing lines, and the files
 * that were asked for (supervisor.h).
 */
#include "launcher/supervisor.h"

#include "base/clock.h"
#include "base/message.h"
#include "base/printable.h"
#include "launcher/common/helper.h"
#include "launcher/output/relay.h"
#include "launcher/report/closing.h"
#include "launcher/watch/verdict.h"

#include <poll.h>

enum {
    MESSAGE_DELAY_MS = 1000, /* for which the reason of a failure waits for the ranks' last output, */
    LAST_WORDS_MS = 1000,    /* and for which it is waited for itself once the user wants the end */
};

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
        if (now >= until_ns || supervisor_take_signals(s))
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
        .program = s->job->options.program,
        .begun_unix_ns = s->job->begun_unix_ns,
    };
    const struct trace_summary trace = {&s->job->options, s->job->begun_unix_ns, &summary};
    summary_write(&s->summary, &summary);
    side_file_do(&s->trace, trace_summary_add, &trace);
    metrics_end(s->metrics, s->ranks, s->view_count, summary.exit_code, summary.signal);
    char *attempts = summary_attempts(&summary);
    free(s->job->attempts);
    s->job->attempts = attempts;
}

/* Supervisor 0 says why the job ends. Where its line is not seen, this one repeats it; what supervisor 0 did not answer
 * to, it may not have said. */
static void
report_on_client(struct supervisor *s)
{
    const struct supervisor_client *client = s->net.job.client;
    bool is_answered = supervisor_net_await_end(&s->net);
    bool has_reason = client->end && client->ending.text[0] != '\0';
    if (has_reason && !s->hurried && job_speaks_for_other_host(s->job))
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
    empty_input_look(&s->job->empty);
    double seconds = (double)(clock_ns() - s->begin_ns) * 1e-9;
    char text[NONFINITE_TEXT_BYTES];
    bool has_failed = s->failed && !s->interrupted;
    if (nonfinite_last(s->ranks, s->view_count, has_failed, text))
        message_warning("nonfinite", "%s%s", text,
                        has_failed ? "" : "; the run has continued, and --stop-on-nan ends it");
    if (has_failed && xid_watch_text(s->xids)[0] != '\0')
        printable_append(s->reason.text, sizeof(s->reason.text), "; the driver has reported %s",
                         xid_watch_text(s->xids));
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
        message_line("there is no page: %s", error.text);
    else if (!job->options.quiet && strcmp(job->options.page, "-") != 0)
        message_line("the page of this run: %s", job->options.page);
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
void
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
    (void)supervisor_take_signals(s); /* one that came meanwhile */
    messages_close(&s->job->messages, &s->job->signals, s->hurried, LAST_WORDS_MS);
}
