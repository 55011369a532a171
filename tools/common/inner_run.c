/* inner_run.c - see inner_run.h. */
#include "tools/common/inner_run.h"

#include "base/clock.h"
#include "base/protocol.h"
#include "tools/common/tool_options.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_MS = 20000 }; /* with a ddprun that was asked to end */

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

void
inner_run_words(struct word_list *words, const char *summary, char *const *program)
{
    word_list_add(words, xstrdup("--progress=off"));
    word_list_add(words, xstrdup("--quiet"));
    word_list_add(words, xstrdup("--max-restarts=0"));
    word_list_add(words, xasprintf("--summary-json=%s", summary));
    word_list_add(words, xstrdup("--"));
    for (; *program != NULL; ++program)
        word_list_add(words, xstrdup(*program));
}

void
inner_run_become(char **command, pid_t parent, const char *errors, bool all, const char *const *sets,
                 const sigset_t *old)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(DDPRUN_EXIT_FAILURE);
    options_unset_settings(sets);
    setenv("DDPRUN_REPORT", "-", 1); /* there */
    int null = open("/dev/null", O_RDWR),
        out = errors != NULL ? open(errors, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600) : -1;
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    if (out >= 0 && all)
        dup2(out, STDOUT_FILENO);
    if (out >= 0)
        dup2(out, STDERR_FILENO);
    sigprocmask(SIG_SETMASK, old, NULL);
    execv("/proc/self/exe", command);
    _exit(DDPRUN_EXIT_NOT_RUN);
}

static void
ask(struct inner_run *run, int number)
{
    kill(run->pid, number);
    run->asked_ms = run->asked_ms != 0 ? run->asked_ms : clock_now_ms();
}

bool
inner_run_goes_on(struct inner_run *run)
{
    int status;
    pid_t ended = waitpid(run->pid, &status, WNOHANG);
    if (ended == run->pid) {
        run->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        return false;
    }
    sigset_t wanted = read_here();
    int64_t took_ms = clock_now_ms() - run->begin_ms, wait_ms = took_ms < 16 ? 1 : took_ms > 4000 ? 250 : took_ms / 16;
    int number = sigtimedwait(&wanted, NULL, &(struct timespec){.tv_nsec = wait_ms * 1000000});
    if (number > 0 && number != SIGCHLD)
        ask(run, run->signal = number);
    else if (run->asked_ms != 0 && clock_now_ms() - run->asked_ms > PATIENCE_MS)
        kill(run->pid, SIGKILL);
    return true;
}

void
inner_run_end(struct inner_run *run)
{
    if (run->asked_ms == 0)
        ask(run, SIGTERM);
}

bool
inner_run_is_late(const struct inner_run *run, unsigned limit_s)
{
    return run->asked_ms == 0 && clock_now_ms() - run->begin_ms > (int64_t)limit_s * 1000;
}
