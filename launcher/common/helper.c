/*
 * helper.c - see helper.h. What a helper does between fork and _exit() may allocate: glibc's fork leaves malloc and
 * stdio usable, whatever other threads did.
 */
#include "launcher/common/helper.h"

#include "base/clock.h"
#include "base/message.h"
#include "launcher/common/signals.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { GOES_ON = -1, TAKES_TIME = -2 }; /* what a helper says besides how its work ended, which is 0 or an errno */
enum { LOOK_MS = 50, REAP_LOOKS = 100 /* of a millisecond */ };

#define LIMIT_NS (HELPER_LIMIT_S * UINT64_C(1000000000))

static bool hurried;
static int said_to = -1; /* in a helper: the pipe to its parent, for words; -1 elsewhere */

/* ---- in the helper ---- */

static void
say(int word)
{
    while (said_to >= 0 && write(said_to, &word, sizeof(word)) < 0 && errno == EINTR) {
    }
}

void
helper_goes_on(void)
{
    say(GOES_ON);
}

void
helper_takes_time(void)
{
    say(TAKES_TIME);
}

/* What others wait for the end of, such as ranks' pipes, and locks, must not live as long as a helper that hangs. */
static void
close_own_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        int fd = atoi(entry->d_name), flags = fd > STDERR_FILENO ? fcntl(fd, F_GETFD) : 0;
        if ((flags & FD_CLOEXEC) != 0 && fd != said_to && fd != message_target() && fd != dirfd(folder))
            close(fd);
    }
    if (folder != NULL)
        closedir(folder);
}

static void __attribute__((noreturn)) help(int to, pid_t parent, helper_work work, const void *data)
{
    said_to = to;
    signal(SIGPIPE, SIG_IGN); /* writing says why it failed */
    signal(SIGXFSZ, SIG_IGN);
    prctl(PR_SET_NAME, "ddprun-files");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    close_own_descriptors();
    say(work(data));
    _exit(0);
}

/* ---- who has begun it ---- */

void
helper_begin(struct helper *helper, helper_work work, const void *data)
{
    int ends[2];
    pid_t self = getpid();
    *helper = (struct helper){.pid = self, .fd = -1, .until_ns = clock_ns() + LIMIT_NS};
    if (pipe2(ends, O_CLOEXEC) != 0) {
        helper->cause = errno;
        return;
    }
    pid_t pid = fork();
    if (pid == 0)
        help(ends[1], self, work, data);
    helper->cause = errno;
    close(ends[1]);
    if (pid > 0) {
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
        helper->pid = pid;
        helper->fd = ends[0];
    } else {
        close(ends[0]);
    }
}

/* Returns whether the helper has said its last word, or is dead. */
static bool
hear(struct helper *helper, int *cause)
{
    int word;
    ssize_t got;
    while ((got = read(helper->fd, &word, sizeof(word))) == (ssize_t)sizeof(word)) {
        if (word >= 0) {
            *cause = word;
            return true;
        }
        helper->until_ns = word == TAKES_TIME || helper->until_ns == 0 ? 0 : clock_ns() + LIMIT_NS;
    }
    *cause = EIO; /* killed by others, or by a fault of its own */
    return got == 0;
}

/* By another process: it may stay so. */
static bool
is_stopped(pid_t pid)
{
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

/* Whether the helper has run since the last look, or has waited for a processor: a call that hangs in the system does
 * neither. By /proc/PID/schedstat (Documentation/scheduler/sched-stats.rst); false where the kernel has no such file.
 */
static bool
has_run(struct helper *helper)
{
    char path[64];
    unsigned long long run_ns = 0, queued_ns = 0;
    snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)helper->pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool is_known = fscanf(file, "%llu %llu", &run_ns, &queued_ns) == 2;
    fclose(file);
    if (!is_known || (run_ns == helper->run_ns && queued_ns == helper->queued_ns))
        return false;
    helper->run_ns = run_ns;
    helper->queued_ns = queued_ns;
    return true;
}

static bool
is_over(struct helper *helper, bool waits, int *cause)
{
    *cause = helper->cause;
    if (helper->fd < 0 || hear(helper, cause))
        return true;
    if (helper->until_ns == 0 && (hurried || is_stopped(helper->pid)))
        helper->until_ns = clock_ns() + LIMIT_NS;
    else if (helper->until_ns != 0 && !hurried && has_run(helper))
        helper->until_ns = clock_ns() + LIMIT_NS;
    bool late = helper->until_ns != 0 && clock_ns() >= helper->until_ns;
    *cause = late ? ETIMEDOUT : waits && signals_pending_end() != 0 ? EINTR : 0;
    if (*cause != 0)
        kill(helper->pid, SIGKILL);
    return *cause != 0;
}

bool
helper_reap(pid_t pid, int *status)
{
    pid_t reaped = 0;
    for (int i = 0; i < REAP_LOOKS && (reaped = waitpid(pid, status, WNOHANG)) == 0; ++i)
        poll(NULL, 0, 1);
    return reaped == pid;
}

bool
helper_is_over(struct helper *helper, bool waits, int *cause)
{
    if (helper->pid == 0)
        return false;
    while (!is_over(helper, waits, cause)) {
        if (!waits)
            return false;
        poll(&(struct pollfd){.fd = helper->fd, .events = POLLIN}, 1, LOOK_MS);
    }
    if (helper->fd >= 0) {
        close(helper->fd);
        (void)helper_reap(helper->pid, NULL);
    }
    *helper = (struct helper){0};
    return true;
}

int
helper_do(helper_work work, const void *data)
{
    struct helper helper;
    int cause = 0;
    helper_begin(&helper, work, data);
    (void)helper_is_over(&helper, true, &cause);
    return cause;
}

void
helper_hurry(void)
{
    hurried = true;
}
