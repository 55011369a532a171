/*
 * guardian.c - see spawn.h.
 *
 * Rule of this file, as in spawn.c: after fork only async-signal-safe calls. The launcher may have threads (PMIx),
 * whose locks the child has copied in a locked state.
 */
#include "launcher/start/spawn.h"

#include "launcher/common/helper.h"
#include "launcher/options/options.h"
#include "launcher/start/job_folder.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { DISMISSED = 0, NO_GROUPS = -1 };
enum { END_MS = 1000 };

static pid_t guardian;
static int fd = -1; /* to the guardian; messages are pid_t */

static void
close_all_but(int kept)
{
    if (kept > 0)
        close_range(0, (unsigned)kept - 1, 0);
    close_range((unsigned)kept + 1, ~0u, 0);
}

static void __attribute__((noreturn)) guard(int from, const char *folder, const char *file)
{
    static pid_t groups[OPTIONS_MOST_RANKS];
    size_t count = 0;
    sigset_t all;
    pid_t group;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid();
    prctl(PR_SET_NAME, "ddprun-guardian");
    close_all_but(from);
    for (;;) {
        ssize_t got = recv(from, &group, sizeof(group), 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got != (ssize_t)sizeof(group)) /* ddprun is gone */
            break;
        if (group == DISMISSED)
            _exit(0);
        if (group == NO_GROUPS)
            count = 0;
        else if (count < OPTIONS_MOST_RANKS)
            groups[count++] = group;
    }
    for (size_t i = 0; i < count; ++i)
        kill(-groups[i], SIGKILL);
    job_folder_clear(folder);
    if (file != NULL && poll(NULL, 0, END_MS) == 0) /* who writes it is ending */
        unlink(file);
    _exit(0);
}

void
guardian_start(const char *folder, const char *file)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return;
    guardian = fork();
    if (guardian == 0)
        guard(ends[1], folder, file);
    close(ends[1]);
    fd = ends[0];
    if (guardian > 0)
        return;
    close(fd);
    fd = -1;
    guardian = 0;
}

void
guardian_add(pid_t group)
{
    if (guardian != 0)
        (void)send(fd, &group, sizeof(group), MSG_NOSIGNAL);
}

void
guardian_forget_groups(void)
{
    guardian_add(NO_GROUPS);
}

void
guardian_dismiss(void)
{
    if (guardian == 0)
        return;
    guardian_add(DISMISSED);
    (void)poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, END_MS); /* the end of the guardian closes its end */
    close(fd);
    if (waitpid(guardian, NULL, WNOHANG) == 0) {
        kill(guardian, SIGKILL);
        (void)helper_reap(guardian, NULL);
    }
    guardian = 0;
    fd = -1;
}

pid_t
guardian_process(void)
{
    return guardian;
}
