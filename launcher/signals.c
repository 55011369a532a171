/*
 * signals.c - see signals.h.
 */
#include "launcher/signals.h"

#include "base/protocol.h"

#include <errno.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

static bool
is_ignored(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

bool
signals_take_over(struct signals *signals, struct problem *problem)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
    sigset_t read_here, blocked;
    sigemptyset(&read_here);
    sigaddset(&read_here, SIGCHLD);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); ++i) {
        if (!is_ignored(ends[i]))
            sigaddset(&read_here, ends[i]);
    }
    /* Blocked as well: reading the terminal from the background is then an error instead of a stop (terminal_input.c).
     */
    blocked = read_here;
    sigaddset(&blocked, SIGTTIN);
    sigaddset(&blocked, SIGTTOU);

    struct sigaction plain = {.sa_handler = SIG_DFL}, ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGCHLD, &plain, NULL); /* inherited as ignored, it would make exit codes vanish */
    sigaction(SIGPIPE, &ignore, &signals->old_pipe);
    sigprocmask(SIG_BLOCK, &blocked, &signals->old_mask);
    signals->fd = signalfd(-1, &read_here, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals->fd < 0)
        return problem_set(problem, DDPRUN_EXIT_FAILURE, "cannot make a signalfd: %s; raise the limit of open files",
                           strerror(errno));
    return true;
}

int
signals_next(const struct signals *signals)
{
    struct signalfd_siginfo info;
    return read(signals->fd, &info, sizeof(info)) == (ssize_t)sizeof(info) ? (int)info.ssi_signo : 0;
}

void
signals_give_back(const struct signals *signals)
{
    sigaction(SIGPIPE, &signals->old_pipe, NULL);
    sigprocmask(SIG_SETMASK, &signals->old_mask, NULL);
}
