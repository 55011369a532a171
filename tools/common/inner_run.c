/*
 * inner_run.c - see inner_run.h.
 */
#include "tools/common/inner_run.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

static sigset_t
read_here(void)
{
    static const int signals[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); ++i)
        sigaddset(&set, signals[i]);
    return set;
}

void
inner_run_block_signals(sigset_t *old)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t blocked = read_here();
    sigaction(SIGCHLD, &plain, NULL); /* inherited as ignored, it would make exit codes vanish */
    sigprocmask(SIG_BLOCK, &blocked, old);
}

int
inner_run_next_signal(void)
{
    sigset_t wanted = read_here();
    int number = sigtimedwait(&wanted, NULL, &(struct timespec){.tv_nsec = 250000000});
    return number > 0 ? number : 0;
}

bool
inner_run_has_ended(pid_t pid, int *status_p)
{
    pid_t ended;
    do
        ended = waitpid(pid, status_p, WNOHANG);
    while (ended < 0 && errno == EINTR);
    return ended == pid;
}
