/*
 * host_launcher.c - see hosts.h. What differs between the launchers is this one table: hosts.c uses only
 * options that all of them spell alike.
 *
 * Sources: mpirun(1) of Open MPI 4.1; prterun --help of PRRTE 3, which Open MPI 5 calls under the name of mpirun. What
 * becomes of a lost host was tried (tests/cluster/two_hosts_mpirun.sh, two_hosts_prrte.sh).
 */
#include "launcher/hosts.h"

#include "base/clock.h"
#include "base/protocol.h"
#include "launcher/common/xcalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the order in which they are preferred. */
static const struct known_launcher {
    const char *program; /* as it is looked for in PATH; other launchers have the name too */
    const char *maker;   /* in the first line of --version: "mpirun (Open MPI) 4.1.4" */
    int least, most;     /* major version that follows */
    struct launcher_traits traits;
} known_launchers[] = {
    {"mpirun", "(Open MPI)", 4, 4, {"--mca", false}},
    {"mpirun", "(Open MPI)", 5, INT_MAX, {"--prtemca", true}},
    {"prterun", "(PRRTE)", 2, INT_MAX, {"--prtemca", true}},
};
enum { KNOWN_COUNT = sizeof(known_launchers) / sizeof(known_launchers[0]) };

const struct launcher_traits *
host_launcher_recognise(const char *program, const char *version)
{
    for (int i = 0; i < KNOWN_COUNT; ++i) {
        const struct known_launcher *known = &known_launchers[i];
        const char *maker = strcmp(known->program, program) == 0 ? strstr(version, known->maker) : NULL;
        int major = maker != NULL ? atoi(maker + strlen(known->maker)) : 0;
        if (major >= known->least && major <= known->most)
            return &known->traits;
    }
    return NULL;
}

/* The first executable file `name` of `path`, malloc'ed; NULL: none. The current folder is never looked into. */
static char *
find_in_path(const char *path, const char *name)
{
    for (const char *at = path; at != NULL; at = strchr(at, ':')) {
        at += *at == ':';
        size_t length = strcspn(at, ":");
        char *file = xasprintf("%.*s/%s", (int)length, at, name);
        struct stat found;
        if (length > 0 && at[0] == '/' && stat(file, &found) == 0 && S_ISREG(found.st_mode) && access(file, X_OK) == 0)
            return file;
        free(file);
    }
    return NULL;
}

/* Reads until the end, `bytes` - 1 bytes, or the deadline; the text ends with a NUL. */
static void
read_text(int fd, char *text, size_t bytes)
{
    enum { LIMIT_MS = 20000 };
    int64_t deadline_ms = clock_now_ms() + LIMIT_MS;
    size_t length = 0;
    while (length + 1 < bytes) {
        struct pollfd input = {.fd = fd, .events = POLLIN};
        int64_t left_ms = deadline_ms - clock_now_ms();
        if (left_ms <= 0 || poll(&input, 1, (int)left_ms) <= 0)
            break;
        ssize_t got = read(fd, text + length, bytes - 1 - length);
        if (got <= 0)
            break;
        length += (size_t)got;
    }
    text[length] = '\0';
}

/* What `file --version` prints first, on either stream; empty if it cannot be started or says nothing in time. */
static void
ask_version(const char *file, char *text, size_t bytes)
{
    text[0] = '\0';
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) != 0)
        return;
    char *arguments[] = {(char *)file, "--version", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDERR_FILENO);
    pid_t pid;
    int cause = posix_spawn(&pid, file, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_fds[1]);
    if (cause == 0) {
        read_text(pipe_fds[0], text, bytes);
        kill(pid, SIGKILL); /* it has said what we want */
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    close(pipe_fds[0]);
}

/* The first line that says something, cut for a message. What has gone wrong stands between lines of dashes. */
static void
keep_first_line(char *text)
{
    enum { LONGEST = 80 };
    size_t blank = strspn(text, " \t\r\n-");
    memmove(text, text + blank, strlen(text + blank) + 1);
    text[strcspn(text, "\r\n")] = '\0';
    if (strlen(text) > LONGEST)
        memcpy(text + LONGEST - 3, "...", sizeof("..."));
    for (char *p = text; *p != '\0'; ++p) {
        if (*p < ' ' || *p > '~')
            *p = '?';
    }
}

bool
host_launcher_find(const char *path, struct host_launcher *launcher, struct error *error)
{
    char *other = NULL; /* another program of the same name */
    for (int i = 0; i < KNOWN_COUNT; ++i) {
        const char *name = known_launchers[i].program;
        char version[512],
            *file = i > 0 && strcmp(name, known_launchers[i - 1].program) == 0 ? NULL : find_in_path(path, name);
        if (file == NULL)
            continue;
        ask_version(file, version, sizeof(version));
        const struct launcher_traits *traits = host_launcher_recognise(name, version);
        if (traits != NULL) {
            free(other);
            *launcher = (struct host_launcher){file, *traits};
            return true;
        }
        keep_first_line(version);
        if (other == NULL)
            other = xasprintf(" (%s is another: '%s')", file, version);
        free(file);
    }
    error_set(error, DDPRUN_EXIT_USAGE,
              "--hosts needs mpirun of Open MPI 4 or newer, or prterun, and finds neither in PATH%.400s; install one "
              "(Debian: openmpi-bin)",
              other != NULL ? other : "");
    free(other);
    return false;
}
