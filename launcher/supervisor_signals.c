/*
 * supervisor_signals.c - signals to ddprun: those that ask for the end, those that are the ranks' own, and a stop
 * (supervisor.h).
 */
#include "launcher/supervisor.h"

#include "base/clock.h"
#include "base/message.h"
#include "launcher/common/helper.h"

enum { SAME_SIGNAL_MS = 20 }; /* in which a signal that comes twice is one; those that are read together always are */

/*
 * Whether a signal that comes here while ranks have the time of --grace asks for the end at once: not if it is the
 * first here, because a scheduler sends one to each ddprun of a job, and the job ends by whichever comes first; nor in
 * the same moment as the first, as timeout(1) sends one to the process and one to its group.
 */
static bool
is_second(struct supervisor *s, uint64_t read_ns)
{
    uint64_t first_ns = s->signalled_ns;
    if (first_ns == 0)
        s->signalled_ns = read_ns;
    return first_ns != 0 && read_ns - first_ns >= SAME_SIGNAL_MS * MS;
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
void
supervisor_interrupt(struct supervisor *s, int number)
{
    s->hurried = true;
    helper_hurry();
    s->failed = s->interrupted = true;
    error_set(&s->reason, 128 + number, "SIG%s: ending %d rank%s (once more: at once)", sigabbrev_np(number),
              s->view_count, s->view_count == 1 ? "" : "s");
    supervisor_net_say_error(&s->net, &s->reason, number, JOB_MAY_BEGIN_AGAIN);
    supervisor_begin_end(s, number == SIGQUIT ? SIGTERM : number, number, supervisor_grace_ns(s));
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
    /* The user, or a scheduler, sees that the host's ddprun was killed, and starts the job again as a new one. */
    s->final = JOB_HOST_WAS_KILLED;
    supervisor_net_say_error(&s->net, &s->reason, 0, s->final);
    s->told = s->net.job.client != NULL;
    supervisor_fail(s, -1);
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
take_end(struct supervisor *s, int number, uint64_t read_ns)
{
    bool again = is_second(s, read_ns);
    if (!s->ending) {
        supervisor_interrupt(s, number);
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
        s->ranks[i].passed_on = number;
        pid_t left_out = local_ranks_signal(&s->local, i, number);
        if (left_out == 0 || (s->left_out[i] >> number & 1) != 0)
            continue;
        s->left_out[i] |= 1U << number;
        message_line("rank %d (process %d) has no handler for SIG%s: it was not sent, because it would end the rank",
                     s->job->place.first_rank + i, (int)left_out, sigabbrev_np(number));
    }
}

/* Returns whether a signal came that asks for the end. */
bool
supervisor_take_signals(struct supervisor *s)
{
    const uint64_t read_ns = clock_ns();
    bool asked = false;
    int number;
    while ((number = signals_next(&s->job->signals)) != 0) {
        if (number == SIGTSTP) {
            suspend(s);
        } else if (signals_is_for_ranks(number)) {
            pass_on(s, number);
        } else if (number == SIGNALS_ORPHANED && signals_is_orphaned(&s->job->signals)) {
            end_as_orphan(s);
        } else if (number != SIGCHLD) {
            asked = take_end(s, number, read_ns) || asked;
        }
    }
    return asked;
}
