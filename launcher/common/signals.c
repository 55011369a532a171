/* signals.c - see signals.h. */
#include "launcher/common/signals.h"

#include "base/protocol.h"

#include <errno.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
static const int others[] = {SIGTSTP, SIGUSR1, SIGUSR2, SIGNALS_ORPHANED};

static bool end_was_read; /* of the process, as its pending signals are */

enum { END_COUNT = sizeof(ends) / sizeof(ends[0]), OTHER_COUNT = sizeof(others) / sizeof(others[0]) };

static bool
is_ignored(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

bool
signals_take_over(struct signals *signals, struct error *error)
{
    sigset_t read_here, blocked;
    signals->parent = getppid();
    sigemptyset(&read_here);
    sigaddset(&read_here, SIGCHLD);
    for (int i = 0; i < END_COUNT + OTHER_COUNT; ++i) {
        int number = i < END_COUNT ? ends[i] : others[i - END_COUNT];
        if (!is_ignored(number))
            sigaddset(&read_here, number);
    }
    /* Blocked as well: reading the terminal from the background is then an error instead of a stop (terminal_input.c).
     */
    blocked = read_here;
    sigaddset(&blocked, SIGTTIN);
    sigaddset(&blocked, SIGTTOU);

    struct sigaction plain = {.sa_handler = SIG_DFL}, ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGCHLD, &plain, NULL);                /* inherited as ignored, it would make exit codes vanish */
    sigaction(SIGPIPE, &ignore, &signals->old_pipe); /* writing says why it failed */
    sigaction(SIGXFSZ, &ignore, &signals->old_file_size);
    sigprocmask(SIG_BLOCK, &blocked, &signals->old_mask);
    signals->fd = signalfd(-1, &read_here, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals->fd < 0)
        return error_set(error, DDPRUN_EXIT_FAILURE, "cannot make a signalfd: %s; raise the limit of open files",
                         strerror(errno));
    return true;
}

int
signals_next(const struct signals *signals)
{
    struct signalfd_siginfo info;
    int number = read(signals->fd, &info, sizeof(info)) == (ssize_t)sizeof(info) ? (int)info.ssi_signo : 0;
    end_was_read = end_was_read || signals_is_for_end(number);
    return number;
}

int
signals_next_end(const struct signals *signals)
{
    int number;
    do {
        number = signals_next(signals);
    } while (number != 0 && !signals_is_for_end(number));
    return number;
}

bool
signals_end_was_asked(const struct signals *signals)
{
    while (signals_next(signals) != 0) {
    }
    return end_was_read;
}

bool
signals_is_orphaned(const struct signals *signals)
{
    return getppid() != signals->parent;
}

bool
signals_is_for_ranks(int number)
{
    return number == SIGUSR1 || number == SIGUSR2;
}

bool
signals_is_for_end(int number)
{
    for (int i = 0; i < END_COUNT; ++i) {
        if (number == ends[i])
            return true;
    }
    return false;
}

int
signals_pending_end(void)
{
    sigset_t pending;
    sigpending(&pending);
    for (int i = 0; i < END_COUNT; ++i) {
        if (sigismember(&pending, ends[i]) == 1)
            return ends[i];
    }
    return 0;
}

void
signals_give_back(const struct signals *signals)
{
    sigaction(SIGPIPE, &signals->old_pipe, NULL);
    sigaction(SIGXFSZ, &signals->old_file_size, NULL);
    sigprocmask(SIG_SETMASK, &signals->old_mask, NULL);
}
