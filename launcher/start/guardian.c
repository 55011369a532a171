/*
 * guardian.c - see spawn.h.
 *
 * Rule of this file, as in spawn.c: after fork only async-signal-safe calls. The launcher may have threads (PMIx),
 * whose locks the child has copied in a locked state.
 */
#include "launcher/start/spawn.h"

#include "base/protocol.h"
#include "launcher/common/helper.h"
#include "launcher/options/options.h"
#include "launcher/start/job_folder.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
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

/* ---- processes of the job that left its groups ---- */

enum { SCANS = 3, SCAN_PAUSE_MS = 50 };

/* Of linux/dirent.h: libc has no declaration of what getdents64(2) writes. */
struct directory_entry {
    uint64_t inode;
    int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[];
};

static bool
is_number(const char *name)
{
    return name[0] != '\0' && name[strspn(name, "0123456789")] == '\0';
}

/* Whether an open /proc/PID/environ holds `mark`, a variable with its value, up to its NUL. Read in parts: the end of
 * each is looked at again with the next. */
static bool
has_mark(int environment, const char *mark, size_t length)
{
    static char bytes[1 << 16];
    size_t kept = 0;
    ssize_t got;
    if (length > sizeof(bytes) / 2)
        return false;
    while ((got = read(environment, bytes + kept, sizeof(bytes) - kept)) > 0) {
        size_t count = kept + (size_t)got;
        if (memmem(bytes, count, mark, length) != NULL)
            return true;
        kept = count < length ? count : length - 1;
        memmove(bytes, bytes + count - kept, kept);
    }
    return false;
}

/* A process that has changed its environment since it was started, or belongs to another user, is not found. */
static bool
is_of_job(int proc, const char *pid, const char *mark, size_t length)
{
    char path[32];
    static const char file[] = "/environ";
    if (strlen(pid) + sizeof(file) > sizeof(path))
        return false;
    strcat(strcpy(path, pid), file); /* snprintf is not async-signal-safe */
    int environment = openat(proc, path, O_RDONLY | O_CLOEXEC);
    bool found = environment >= 0 && has_mark(environment, mark, length);
    if (environment >= 0)
        close(environment);
    return found;
}

/* Returns whether a process was found. */
static bool
kill_marked(const char *mark, size_t length)
{
    static char entries[1 << 15] __attribute__((aligned(8)));
    bool found = false;
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long got;
    if (proc < 0)
        return false;
    while ((got = syscall(SYS_getdents64, proc, entries, sizeof(entries))) > 0) {
        for (long at = 0; at < got;) {
            const struct directory_entry *entry = (const struct directory_entry *)(entries + at);
            at += entry->length;
            if (!is_number(entry->name) || !is_of_job(proc, entry->name, mark, length))
                continue;
            found = true;
            kill((pid_t)atoi(entry->name), SIGKILL);
        }
    }
    close(proc);
    return found;
}

/* Sessions of their own have no group that ddprun knows; all processes of a job inherit the folder's name. What one of
 * them starts meanwhile is found by the next scan. */
static void
kill_others(const char *folder)
{
    static char mark[PATH_MAX + sizeof(DDPRUN_ENV_JOB_DIR "=")];
    static const char name[] = DDPRUN_ENV_JOB_DIR "=";
    size_t length = strlen(folder);
    if (length >= PATH_MAX)
        return;
    memcpy(mark, name, sizeof(name) - 1);
    memcpy(mark + sizeof(name) - 1, folder, length + 1); /* with its NUL: folders whose names begin so are others */
    for (int i = 0; i < SCANS && kill_marked(mark, sizeof(name) + length); ++i)
        (void)poll(NULL, 0, SCAN_PAUSE_MS);
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
    if (count > 0) /* else no rank is left */
        kill_others(folder);
    close(from); /* guardian_end_ranks() waits for that */
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
guardian_end_ranks(void)
{
    if (guardian == 0)
        return;
    (void)shutdown(fd, SHUT_WR); /* to the guardian, as if ddprun were gone */
    (void)poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, END_MS);
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
