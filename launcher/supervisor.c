/*
 * supervisor.c - see supervisor.h.
 */
#include "launcher/supervisor.h"

#include "base/message.h"
#include "base/protocol.h"
#include "launcher/local_ranks.h"
#include "launcher/memory.h"
#include "launcher/preload_watch.h"
#include "launcher/processes.h"
#include "launcher/summary.h"
#include "launcher/verdict.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    LOOK_INTERVAL_MS = 100,   /* at the status pages, while ranks start or end */
    STEADY_INTERVAL_MS = 250, /* while all of them run; what is urgent comes by a signal or the pipe */
    END_INTERVAL_MS = 20,
    MESSAGE_DELAY_MS = 1000, /* for which the reason of a failure waits for the ranks' last output */
};

#define MS              1000000ull
#define GRACE_NS        (PROCESSES_GRACE_MS * MS)
#define POLITE_GRACE_NS (5000 * MS) /* the same after Ctrl-C or SIGTERM: a trainer may want to save its work */
#define UNKILLABLE_NS   (PROCESSES_UNKILLABLE_MS * MS)
#define LEFT_EARLY_NS   (1000 * MS) /* ranks that end without our knowledge do so at about the same time */
#define FOLLOWS_NS      (1000 * MS) /* a rank's sockets close before its end can be known, a core dump may lie between */

struct supervisor {
    const struct running_job *job;
    struct local_ranks local;
    struct rank_view *ranks;
    struct preload_watch *watch;
    struct process_list processes; /* scratch of step_end() */
    uint64_t *unfinished_since_ns; /* per rank; 0: not */
    bool steady;                   /* all became ranks, and nobody has ended */
    bool ending;
    bool killed;
    uint64_t kill_at_ns;
    uint64_t begin_ns;
    uint64_t follows_since_ns; /* 0: not */
    bool failed;               /* `reason` holds why */
    bool told;                 /* the user knows it already */
    struct problem reason;     /* .exit_code is the job's in any case */
};

static uint64_t
now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* ---- ending ---- */

static void
begin_end(struct supervisor *s, int number, uint64_t grace_ns)
{
    s->ending = true;
    progress_hide(s->job->progress);
    s->kill_at_ns = now_ns() + grace_ns;
    processes_signal_all(&s->processes, s->job->pids, s->job->rank_count, number);
}

/* Returns whether nobody is left. */
static bool
step_end(struct supervisor *s)
{
    size_t left = processes_signal_descendants(&s->processes, s->job->pids[0], 0);
    uint64_t now = now_ns();
    if (left == 0)
        return true;
    if (now >= s->kill_at_ns)
        processes_signal_all(&s->processes, s->job->pids, s->job->rank_count, SIGKILL);
    if (now < s->kill_at_ns + UNKILLABLE_NS)
        return false;
    message_line("%zu processes of the job do not end, not even when killed; they hang in the system (a driver or a "
                 "file server?)",
                 left);
    return true;
}

/* ---- what is known of the ranks ---- */

/* Who ended with exit code 0 while others train is given the time in which they may end in the same way. */
static void
find_early_leavers(struct supervisor *s)
{
    bool training = false;
    for (int i = 0; i < s->job->rank_count; ++i)
        training = training || verdict_is_training(&s->ranks[i]);
    for (int i = 0; i < s->job->rank_count; ++i) {
        if (!training || !verdict_is_unfinished(&s->ranks[i]))
            continue;
        if (s->unfinished_since_ns[i] == 0)
            s->unfinished_since_ns[i] = now_ns();
        s->ranks[i].left_early = now_ns() - s->unfinished_since_ns[i] >= LEFT_EARLY_NS;
    }
}

static bool
all_ended(const struct supervisor *s)
{
    for (int i = 0; i < s->job->rank_count; ++i) {
        if (!s->ranks[i].ended)
            return false;
    }
    return true;
}

static bool
is_steady(const struct supervisor *s)
{
    for (int i = 0; i < s->job->rank_count; ++i) {
        const struct rank_view *rank = &s->ranks[i];
        if (rank->ended || (rank->stage != RANK_STAGE_RANK && rank->stage != RANK_STAGE_TRAINING))
            return false;
    }
    return true;
}

/* ---- judging ---- */

static void
fail(struct supervisor *s)
{
    s->failed = true;
    begin_end(s, SIGTERM, GRACE_NS);
}

static void
watch_preload(struct supervisor *s)
{
    int count = s->job->rank_count;
    struct preload_subject *subjects = memory_get((size_t)count, sizeof(*subjects));
    for (int i = 0; i < count; ++i) {
        subjects[i].pid = s->job->pids[i];
        subjects[i].has_reported = s->ranks[i].ended || s->ranks[i].stage != RANK_STAGE_NONE;
    }
    pid_t pid;
    int rank = preload_watch_look(s->watch, subjects, now_ns(), &pid);
    free(subjects);
    for (int i = 0; i < count; ++i)
        s->ranks[i].missed_preload = preload_watch_saw(s->watch, i);
    if (rank < 0)
        return;
    problem_set(&s->reason, DDPRUN_EXIT_FAILURE,
                "rank %d uses the CUDA driver in process %d, which ddprun's library was not loaded into, so it would "
                "train alone; "
                "the usual causes: a static or setuid executable, or a wrapper that clears LD_PRELOAD",
                rank, (int)pid);
    fail(s);
}

static void
judge(struct supervisor *s)
{
    local_ranks_look(&s->local);
    find_early_leavers(s);
    s->steady = is_steady(s);
    progress_show(s->job->progress, s->ranks, s->job->rank_count, now_ns());
    news_tell(s->job->news, &s->ranks[0]);
    bool over = all_ended(s);
    bool failed = over ? verdict_find_at_end(s->ranks, s->job->rank_count, &s->reason)
                       : verdict_find(s->ranks, s->job->rank_count, &s->reason);
    if (failed && !over && verdict_only_follows(s->ranks, s->job->rank_count)) {
        if (s->follows_since_ns == 0)
            s->follows_since_ns = now_ns();
        if (now_ns() - s->follows_since_ns < FOLLOWS_NS)
            return;
    }
    if (failed)
        fail(s);
    else if (over)
        begin_end(s, SIGTERM, GRACE_NS); /* for what the ranks may have left behind */
    else
        watch_preload(s);
}

/* ---- signals and waiting ---- */

static void
interrupt(struct supervisor *s, int number)
{
    if (s->ending) {
        s->kill_at_ns = now_ns();
        return;
    }
    s->failed = true;
    problem_set(&s->reason, 128 + number, "SIG%s: ending %d rank%s (once more: at once)", sigabbrev_np(number),
                s->job->rank_count, s->job->rank_count == 1 ? "" : "s");
    begin_end(s, number == SIGQUIT ? SIGTERM : number, POLITE_GRACE_NS);
    message_line("%s", s->reason.text); /* last: stderr may be held up */
    s->told = true;
}

static void
suspend(const struct supervisor *s)
{
    progress_hide(s->job->progress);
    processes_signal_groups(s->job->pids, s->job->rank_count, SIGSTOP);
    raise(SIGSTOP);
    processes_signal_groups(s->job->pids, s->job->rank_count, SIGCONT);
}

/* Returns whether a signal came that asks for the end. */
static bool
take_signals(struct supervisor *s)
{
    bool asked = false;
    for (int number; (number = signals_next(s->job->signals)) != 0;) {
        if (number == SIGTSTP) {
            suspend(s);
        } else if (number != SIGCHLD) {
            interrupt(s, number);
            asked = true;
        }
    }
    return asked;
}

static void
wait_for_something(struct supervisor *s)
{
    struct pollfd polled[3] = {
        {.fd = s->job->signals->fd, .events = POLLIN},
        {.fd = pmix_server_fd(s->job->server), .events = POLLIN},
    };
    terminal_input_poll(s->job->input, &polled[2]);
    if (s->ending) /* nobody takes aborts any more, and input does not matter */
        polled[1].fd = polled[2].fd = -1;
    poll(polled, 3, s->ending ? END_INTERVAL_MS : s->steady ? STEADY_INTERVAL_MS : LOOK_INTERVAL_MS);
    if (!s->ending)
        terminal_input_move(s->job->input, &polled[2]);
}

/* ---- the end ---- */

/* Waits until both relays have left or the time is up; a signal that asks for the end gives up at once. */
static bool
relays_left(struct supervisor *s, uint64_t until_ns)
{
    for (;;) {
        struct pollfd polled[3] = {{.fd = s->job->signals->fd, .events = POLLIN}, {.fd = -1}, {.fd = -1}};
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
        uint64_t now = now_ns();
        if (now >= until_ns || take_signals(s))
            return false;
        uint64_t wait_ms = (until_ns - now) / MS + 1;
        poll(polled, 3, wait_ms < 1000000 ? (int)wait_ms : 1000000);
    }
}

static void
report(struct supervisor *s)
{
    if (!s->failed)
        verdict_close(s->ranks, s->job->rank_count, s->job->summary, message_line);
    else if (!s->told)
        message_line("%s", s->reason.text);
    if (s->job->summary_json != NULL) {
        struct summary summary = {
            .ranks = s->ranks,
            .rank_count = s->job->rank_count,
            .exit_code = s->failed ? s->reason.exit_code : 0,
            .reason = s->failed ? s->reason.text : NULL,
            .seconds = (double)(now_ns() - s->begin_ns) * 1e-9,
        };
        summary_write(s->job->summary_json, &summary, message_line);
    }
}

/* The reason stands below the ranks' last words, unless somebody holds these up. */
static void
finish(struct supervisor *s)
{
    for (int i = 0; i < 2; ++i) {
        if (s->job->relays[i] != NULL)
            relay_finish(s->job->relays[i]);
    }
    bool left = relays_left(s, now_ns() + MESSAGE_DELAY_MS * MS);
    report(s);
    if (!left)
        left = relays_left(s, UINT64_MAX);
    for (int i = 0; left && i < 2; ++i)
        relay_free(s->job->relays[i]);
}

int
supervisor_run(const struct running_job *job)
{
    struct supervisor s = {
        .job = job,
        .ranks = memory_get((size_t)job->rank_count, sizeof(*s.ranks)),
        .unfinished_since_ns = memory_get((size_t)job->rank_count, sizeof(*s.unfinished_since_ns)),
        .watch = preload_watch_new(job->rank_count, now_ns()),
        .begin_ns = now_ns(),
    };
    s.local = (struct local_ranks){.count = job->rank_count,
                                   .pids = job->pids,
                                   .status_page = job->status_page,
                                   .server = job->server,
                                   .views = s.ranks};
    local_ranks_place(&s.local, job->gpus, job->softgpu);
    for (bool over = false; !over;) {
        wait_for_something(&s);
        take_signals(&s);
        if (!s.ending)
            judge(&s);
        over = s.ending && step_end(&s);
    }
    finish(&s);
    processes_reap();
    preload_watch_free(s.watch);
    process_list_free(&s.processes);
    free(s.unfinished_since_ns);
    free(s.ranks);
    return s.failed ? s.reason.exit_code : 0;
}
