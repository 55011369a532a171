/* child.c - see child.h. */
#include "launcher/start/child.h"

#include "base/clock.h"
#include "base/protocol.h"
#include "launcher/common/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* Reads until the pipe closes or the time is over; what does not fit is read and dropped. False: the time is over. */
static bool
collect(int fd, int64_t end_ms, struct child_result *result)
{
    char dropped[4096];
    for (;;) {
        int64_t now_ms = clock_now_ms();
        if (now_ms >= end_ms)
            return false;
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int answer = poll(&ready, 1, (int)(end_ms - now_ms));
        if (answer < 0 && errno != EINTR)
            return false;
        if (answer <= 0)
            continue;
        size_t room = sizeof(result->text) - 1 - result->length;
        ssize_t got = room > 0 ? read(fd, result->text + result->length, room) : read(fd, dropped, sizeof(dropped));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return true;
        if (room > 0)
            result->length += (size_t)got;
    }
}

/* A child may close its output and continue. */
static bool
has_ended(pid_t pid, int64_t end_ms)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    do {
        siginfo_t info = {.si_pid = 0};
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid)
            return true;
        nanosleep(&pause, NULL);
    } while (clock_now_ms() < end_ms);
    return false;
}

/* Ends the child and all that it started (while it is not reaped, no other group gets its group's number), and
 * fetches how it ended. */
static void
reap_child(pid_t pid, bool in_time, struct child_result *result)
{
    int status = 0;
    kill(-pid, SIGKILL);
    bool reaped = helper_reap(pid, &status);
    result->text[result->length] = '\0';
    if (!in_time || !reaped) {
        result->end = CHILD_TOO_SLOW;
    } else if (WIFSIGNALED(status)) {
        result->end = CHILD_KILLED;
        result->code = WTERMSIG(status);
    } else {
        result->end = CHILD_EXITED;
        result->code = WEXITSTATUS(status);
    }
}

void
child_call(int (*function)(void *context), void *context, int limit_s, struct child_result *result)
{
    int ends[2];
    *result = (struct child_result){.end = CHILD_NOT_RUN};
    fflush(NULL);
    if (pipe2(ends, O_CLOEXEC) != 0) {
        result->code = errno;
        return;
    }
    pid_t pid = fork();
    if (pid < 0) {
        result->code = errno;
        close(ends[0]);
        close(ends[1]);
        return;
    }
    if (pid == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
        dup2(nothing, STDIN_FILENO);
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        int code = function(context);
        fflush(NULL);
        _exit(code);
    }
    setpgid(pid, pid);
    close(ends[1]);
    int64_t end_ms = clock_now_ms() + (int64_t)limit_s * 1000;
    bool in_time = collect(ends[0], end_ms, result) && has_ended(pid, end_ms);
    close(ends[0]);
    reap_child(pid, in_time, result);
}

struct program_call {
    char *const *arguments, *const *environment;
};

static int
become_program(void *context)
{
    const struct program_call *call = context;
    execve(call->arguments[0], call->arguments, call->environment);
    fprintf(stderr, "%s: %s\n", call->arguments[0], strerror(errno));
    return DDPRUN_EXIT_NOT_RUN;
}

void
child_run(char *const *arguments, char *const *environment, int limit_s, struct child_result *result)
{
    struct program_call call = {arguments, environment};
    child_call(become_program, &call, limit_s, result);
}

const char *
child_end_text(const struct child_result *result, char text[64])
{
    const char *name = result->end == CHILD_KILLED ? sigabbrev_np(result->code) : NULL;
    if (result->end == CHILD_EXITED)
        snprintf(text, 64, "it ended with exit code %d", result->code);
    else if (result->end == CHILD_KILLED)
        snprintf(text, 64, "it was ended by SIG%s", name != NULL ? name : "?");
    else if (result->end == CHILD_TOO_SLOW)
        snprintf(text, 64, "it did not answer in time");
    else
        snprintf(text, 64, "no process could be made: %s", strerror(result->code));
    return text;
}
