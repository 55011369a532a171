/*
 * spawn.c - see spawn.h.
 *
 * Rule of this file: between fork and execve only async-signal-safe calls. The launcher has threads (PMIx, relays)
 * whose locks the child may have copied in a locked state.
 */
#include "launcher/start/spawn.h"

#include "base/clock.h"
#include "base/protocol.h"
#include "launcher/common/helper.h"
#include "launcher/start/environment.h"
#include "launcher/start/file_limit.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { SIGNAL_STEP_MS = 100 }; /* within which a second signal is seen */

/* Pipes of one start: [0] is read by the launcher. All close on execve; all are above 2 (main() opens 0 to 2 first). */
struct pipes {
    int output[2];
    int error[2];
    int outcome[2]; /* carries a struct outcome if something failed, or just closes */
};

struct outcome {
    enum { OUTCOME_RUNS, OUTCOME_NOT_BOUND, OUTCOME_NOT_RUN, OUTCOME_LATE, OUTCOME_ASKED } what;
    int error; /* errno; OUTCOME_ASKED: the signal */
};

static void
close_all(struct pipes *pipes)
{
    int *ends = (int *)pipes;
    for (size_t i = 0; i < sizeof(*pipes) / sizeof(int); ++i) {
        if (ends[i] >= 0)
            close(ends[i]);
    }
}

static bool
open_pipes(struct pipes *pipes, const struct spawn_order *order)
{
    *pipes = (struct pipes){{-1, -1}, {-1, -1}, {-1, -1}};
    bool second = order->pipe_error && !order->one_pipe;
    if (pipe2(pipes->outcome, O_CLOEXEC) == 0 && (!order->pipe_output || pipe2(pipes->output, O_CLOEXEC) == 0) &&
        (!second || pipe2(pipes->error, O_CLOEXEC) == 0))
        return true;
    int cause = errno;
    close_all(pipes);
    errno = cause;
    return false;
}

static void
connect_descriptors(const struct spawn_order *order, const struct pipes *pipes)
{
    int input = order->input;
    if (input < 0 && order->rank > 0)
        input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (input >= 0)
        dup2(input, STDIN_FILENO);
    if (order->output_file >= 0)
        dup2(order->output_file, STDOUT_FILENO);
    if (order->error_file >= 0)
        dup2(order->error_file, STDERR_FILENO);
    if (order->pipe_output)
        dup2(pipes->output[1], STDOUT_FILENO);
    if (order->pipe_error)
        dup2(order->one_pipe ? pipes->output[1] : pipes->error[1], STDERR_FILENO);
    /* Rank 0 shares the launcher's terminal from a background process group: it must not be stopped for writing there.
     */
    if (order->rank == 0 && (isatty(STDOUT_FILENO) || isatty(STDERR_FILENO))) {
        struct sigaction ignore = {.sa_handler = SIG_IGN};
        sigaction(SIGTTOU, &ignore, NULL);
    }
}

static _Noreturn void
become_rank(const struct spawn_order *order, const struct pipes *pipes, pid_t launcher)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) /* it died before the line above */
        _exit(DDPRUN_EXIT_FAILURE);
    guardian_add(getpid()); /* before it can start anything */
    connect_descriptors(order, pipes);
    signals_give_back(order->signals);
    file_limit_give_back();
    struct outcome outcome = {.what = OUTCOME_NOT_BOUND};
    outcome.error = order->place != NULL ? placement_enter(order->place) : 0;
    if (outcome.error == 0) {
        execve(order->path, order->arguments, *order->environment);
        outcome = (struct outcome){OUTCOME_NOT_RUN, errno};
    }
    ssize_t ignored = write(pipes->outcome[1], &outcome, sizeof(outcome));
    (void)ignored;
    _exit(DDPRUN_EXIT_NOT_RUN);
}

/* Whether something came within the time, or else a signal that asks for the end. */
static bool
wait_for_outcome(int fd, const struct signals *signals, int64_t deadline_ms)
{
    for (;;) {
        struct pollfd polled[2] = {{.fd = fd, .events = POLLIN}, {.fd = signals->fd, .events = POLLIN}};
        int64_t left_ms = deadline_ms - clock_now_ms();
        int ready = poll(polled, 2, left_ms > 0 ? (int)left_ms : 0);
        if (ready > 0 && polled[0].revents != 0)
            return true;
        if (left_ms <= 0 || (ready > 0 && signals_pending_end() != 0))
            return false;
        if (ready > 0) /* another signal, which is the supervisor's to read */
            poll(polled, 1, SIGNAL_STEP_MS);
    }
}

/* Returns once the program runs, or with why not. A child that is stopped, or reads its program from a file server that
 * does not answer, is not waited for for ever. */
static struct outcome
read_outcome(int fd, const struct signals *signals, unsigned limit_s)
{
    struct outcome outcome;
    if (!wait_for_outcome(fd, signals, clock_now_ms() + (int64_t)limit_s * 1000)) {
        int asked = signals_next_end(signals);
        return (struct outcome){asked != 0 ? OUTCOME_ASKED : OUTCOME_LATE, asked};
    }
    ssize_t got;
    do {
        got = read(fd, &outcome, sizeof(outcome));
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof(outcome) ? outcome : (struct outcome){OUTCOME_RUNS, 0};
}

static bool
set_error(const struct spawn_order *order, const struct outcome *outcome, struct error *error)
{
    if (outcome->what == OUTCOME_NOT_BOUND)
        return error_set(
            error, DDPRUN_EXIT_FAILURE,
            "cannot bind rank %d to processors %s: %s; see whether they are still there, or use --bind none",
            order->rank, order->place->list, strerror(outcome->error));
    if (outcome->what == OUTCOME_LATE)
        return error_set(error, DDPRUN_EXIT_FAILURE,
                         "the process of rank %d has not started %s within %u s: it is stopped, or the file "
                         "server does not answer",
                         order->rank, order->path, order->limit_s);
    if (outcome->what == OUTCOME_ASKED)
        return error_set(error, 128 + outcome->error, "SIG%s while the process of rank %d had not started %s",
                         sigabbrev_np(outcome->error), order->rank, order->path);
    return error_set(error, DDPRUN_EXIT_NOT_RUN, "cannot start %s: %s; check that it runs by itself", order->path,
                     strerror(outcome->error));
}

/* Tells the rank which stdout is the one that was made for it (interpose/shim/stdout.c). */
static void
name_output(const struct spawn_order *order, const struct pipes *pipes)
{
    char link[32], place[PATH_MAX];
    int fd = order->pipe_output ? pipes->output[1] : order->output_file;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t length = fd >= 0 ? readlink(link, place, sizeof(place) - 1) : -1;
    environment_unset(*order->environment, DDPRUN_ENV_STDOUT);
    if (length <= 0)
        return;
    place[length] = '\0';
    environment_set(order->environment, DDPRUN_ENV_STDOUT, place);
}

bool
spawn_rank(const struct spawn_order *order, struct spawned *spawned_p, struct error *error)
{
    struct pipes pipes;
    if (!open_pipes(&pipes, order))
        return error_set(error, DDPRUN_EXIT_FAILURE, "cannot make pipes for rank %d: %s; raise the limit of open files",
                         order->rank, strerror(errno));

    name_output(order, &pipes);
    pid_t launcher = getpid();
    pid_t pid = fork();
    if (pid == 0)
        become_rank(order, &pipes, launcher);
    if (pid < 0) {
        error_set(error, DDPRUN_EXIT_FAILURE, "cannot make a process for rank %d: %s; raise the limit of processes",
                  order->rank, strerror(errno));
        close_all(&pipes);
        return false;
    }
    setpgid(pid, pid); /* the child does this too, as either may come first; a failure of the second is harmless */

    close(pipes.outcome[1]);
    pipes.outcome[1] = -1;
    struct outcome outcome = read_outcome(pipes.outcome[0], order->signals, order->limit_s);
    if (outcome.what != OUTCOME_RUNS) {
        kill(pid, SIGKILL);
        (void)helper_reap(pid, NULL);
        close_all(&pipes);
        return set_error(order, &outcome, error);
    }
    *spawned_p = (struct spawned){.pid = pid, .output = pipes.output[0], .error = pipes.error[0]};
    pipes.output[0] = pipes.error[0] = -1;
    close_all(&pipes);
    return true;
}
