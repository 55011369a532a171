/*
 * supervisor.c - see supervisor.h.
 *
 * A rank that has ended is not reaped until the end: as long as it is a zombie, the number of its process group cannot
 * be given to somebody else, and the group can be killed without fear.
 */
#include "launcher/supervisor.h"

#include "base/message.h"
#include "base/protocol.h"
#include "base/status_page.h"
#include "launcher/memory.h"
#include "launcher/preload_watch.h"
#include "launcher/process_list.h"
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
    LOOK_INTERVAL_MS = 100, /* at the status pages, while ranks run */
    END_INTERVAL_MS = 20,
    MESSAGE_DELAY_MS = 1000, /* for which the reason of a failure waits for the ranks' last output */
};

#define MS              1000000ull
#define GRACE_NS        (500 * MS)  /* between SIGTERM and SIGKILL after a failure */
#define POLITE_GRACE_NS (5000 * MS) /* the same after Ctrl-C or SIGTERM: a trainer may want to save its work */
#define UNKILLABLE_NS   (5000 * MS) /* after SIGKILL: whoever is still there hangs in the kernel */
#define LEFT_EARLY_NS   (1000 * MS) /* ranks that end without our knowledge do so at about the same time */
#define FOLLOWS_NS      (1000 * MS) /* a rank's sockets close before its end can be known, a core dump may lie between */

struct supervisor {
    const struct running_job *job;
    struct rank_view *ranks;
    struct preload_watch *watch;
    struct process_list processes; /* scratch of count_left() */
    int order;
    uint64_t *unfinished_since_ns; /* per rank; 0: not */
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

/* ---- ending processes ---- */

/*
 * All that descends from the launcher and lives. With number != 0, sends it that signal. What is older than rank 0
 * (`first`) is not ours: children of a shell that became ddprun by exec.
 */
static size_t
signal_descendants(struct process_list *processes, pid_t first, int number)
{
    size_t alive = 0;
    pid_t self = getpid();
    process_list_read(processes);
    const struct process *oldest = process_list_find(processes, first);
    for (size_t i = 0; oldest != NULL && i < processes->count; ++i) {
        const struct process *process = &processes->items[i];
        if (process->is_zombie || process->pid == self || process->start < oldest->start ||
            !process_list_is_in_tree(processes, process->pid, self))
            continue;
        ++alive;
        if (number != 0)
            kill(process->pid, number);
    }
    return alive;
}

static void
signal_groups(const pid_t *pids, int count, int number)
{
    for (int i = 0; i < count; ++i)
        kill(-pids[i], number);
}

/* Groups first: a signal to a group misses no process that is being forked. A stopped process must run to end. */
static void
signal_all(struct process_list *processes, const pid_t *pids, int count, int number)
{
    signal_groups(pids, count, number);
    signal_descendants(processes, pids[0], number);
    if (number != SIGKILL)
        signal_groups(pids, count, SIGCONT);
}

static void
reap_all(void)
{
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

void
supervisor_end_all(const pid_t *pids, int count)
{
    if (count == 0)
        return;
    struct process_list processes = {0};
    uint64_t begin_ns = now_ns();
    signal_all(&processes, pids, count, SIGTERM);
    while (signal_descendants(&processes, pids[0], 0) > 0 && now_ns() - begin_ns < GRACE_NS + UNKILLABLE_NS) {
        if (now_ns() - begin_ns >= GRACE_NS)
            signal_all(&processes, pids, count, SIGKILL);
        poll(NULL, 0, END_INTERVAL_MS);
    }
    reap_all();
    process_list_free(&processes);
}

static void
begin_end(struct supervisor *s, int number, uint64_t grace_ns)
{
    s->ending = true;
    s->kill_at_ns = now_ns() + grace_ns;
    signal_all(&s->processes, s->job->pids, s->job->rank_count, number);
}

/* Returns whether nobody is left. */
static bool
step_end(struct supervisor *s)
{
    size_t left = signal_descendants(&s->processes, s->job->pids[0], 0);
    uint64_t now = now_ns();
    if (left == 0)
        return true;
    if (now >= s->kill_at_ns)
        signal_all(&s->processes, s->job->pids, s->job->rank_count, SIGKILL);
    if (now < s->kill_at_ns + UNKILLABLE_NS)
        return false;
    message_line("%zu processes of the job do not end, not even when killed; they hang in the system (a driver or a "
                 "file server?)",
                 left);
    return true;
}

/* ---- what is known of the ranks ---- */

static void
read_status(struct rank_view *view, const struct rank_status *status)
{
    view->stage = atomic_load(&status->stage); /* first: the rest is written before it */
    view->step = atomic_load(&status->step);
    view->overlapped_step = atomic_load(&status->overlapped_step);
    view->graph_step = atomic_load(&status->graph_step);
    view->gradient_count = atomic_load(&status->gradient_count);
    view->gradient_bytes = atomic_load(&status->gradient_bytes);
    view->bucket_count = atomic_load(&status->bucket_count);
    view->exposed_count = atomic_load(&status->exposed_count);
    view->exposed_ns = atomic_load(&status->exposed_ns);
    view->exposed_bound_ns = atomic_load(&status->exposed_bound_ns);
    view->sums = atomic_load(&status->reduction) == DDPRUN_REDUCE_SUM;
    view->check_count = atomic_load(&status->check_count);
    view->checked_step = atomic_load(&status->checked_step);
    view->parameter_hash = atomic_load(&status->parameter_hash);
    if (view->stage != RANK_STAGE_FAILED)
        return;
    view->failure_follows = atomic_load(&status->failure_follows) != 0;
    memcpy(view->failure, status->failure, sizeof(view->failure));
    view->failure[sizeof(view->failure) - 1] = '\0';
}

static void
note_end(struct rank_view *view, pid_t pid, int order)
{
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pid)
        return;
    view->ended = true;
    view->order = order;
    if (info.si_code == CLD_EXITED)
        view->exit_code = info.si_status;
    else
        view->signal = info.si_status;
}

/* Ends first: what a rank wrote before it ended is then seen with its end. */
static void
look_at_ranks(struct supervisor *s)
{
    struct pmix_server_abort abort;
    ++s->order;
    for (int i = 0; i < s->job->rank_count; ++i) {
        if (!s->ranks[i].ended)
            note_end(&s->ranks[i], s->job->pids[i], s->order);
    }
    for (int i = 0; i < s->job->rank_count; ++i) {
        read_status(&s->ranks[i], status_page_rank(s->job->status_page, i));
        s->ranks[i].connected = pmix_server_is_connected(s->job->server, i);
    }
    while (pmix_server_next_abort(s->job->server, &abort)) {
        if (abort.rank < 0 || abort.rank >= s->job->rank_count || s->ranks[abort.rank].aborted)
            continue;
        s->ranks[abort.rank].aborted = true;
        s->ranks[abort.rank].abort_status = abort.status;
        memcpy(s->ranks[abort.rank].abort_message, abort.message, sizeof(abort.message));
    }
}

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
    look_at_ranks(s);
    find_early_leavers(s);
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
    signal_groups(s->job->pids, s->job->rank_count, SIGSTOP);
    raise(SIGSTOP);
    signal_groups(s->job->pids, s->job->rank_count, SIGCONT);
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
    poll(polled, 3, s->ending ? END_INTERVAL_MS : LOOK_INTERVAL_MS);
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
    for (bool over = false; !over;) {
        wait_for_something(&s);
        take_signals(&s);
        if (!s.ending)
            judge(&s);
        over = s.ending && step_end(&s);
    }
    finish(&s);
    reap_all();
    preload_watch_free(s.watch);
    process_list_free(&s.processes);
    free(s.unfinished_since_ns);
    free(s.ranks);
    return s.failed ? s.reason.exit_code : 0;
}
