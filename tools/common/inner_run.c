/* inner_run.c - see inner_run.h. */
#include "tools/common/inner_run.h"

#include "base/clock.h"
#include "base/protocol.h"
#include "tools/common/tool_options.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { PATIENCE_MS = 20000 }; /* with a ddprun that was asked to end */

static sigset_t
read_here(void)
{
    static const int signals[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
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

static struct word_list
command_of(const struct inner_start *start)
{
    struct word_list words = {0};
    word_list_add(&words, xstrdup("ddprun"));
    options_hand_on_but(start->options, start->sets, start->one_rank, &words);
    for (size_t i = 0; i < start->words.count; ++i)
        word_list_add(&words, xstrdup(start->words.list[i]));
    word_list_add(&words, xstrdup("--progress=off"));
    word_list_add(&words, xstrdup("--quiet"));
    word_list_add(&words, xstrdup("--max-restarts=0"));
    word_list_add(&words, xasprintf("--summary-json=%s", start->summary));
    word_list_add(&words, xstrdup("--"));
    for (char *const *word = start->program; *word != NULL; ++word)
        word_list_add(&words, xstrdup(*word));
    return words;
}

/* What is read from there is empty, as from /dev/null; but that it was read can be seen (launcher/output/
 * terminal_input.h). -1 with errno. */
static int
open_empty(void)
{
    char path[64];
    int written = memfd_create("stdin", MFD_CLOEXEC);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", written);
    int fd = written >= 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (written >= 0)
        close(written);
    return fd >= 0 ? fd : open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Becomes, in a child of `parent`, this ddprun with other words. */
static void __attribute__((noreturn)) become(char **command, pid_t parent, const struct inner_start *start)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(DDPRUN_EXIT_FAILURE);
    options_unset_settings(start->sets);
    for (const char *(*it)[2] = start->environment; (*it)[0] != NULL; ++it)
        setenv((*it)[0], (*it)[1], 1);
    setenv("DDPRUN_FAILURE_REPORT", "-", 1); /* there */
    int empty = open_empty(),
        out = start->errors != NULL ? open(start->errors, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600) : -1;
    if (empty >= 0)
        dup2(empty, STDIN_FILENO);
    if (out >= 0 && start->output)
        dup2(out, STDOUT_FILENO);
    if (out >= 0)
        dup2(out, STDERR_FILENO);
    sigprocmask(SIG_SETMASK, start->old_mask, NULL);
    execv("/proc/self/exe", command);
    _exit(DDPRUN_EXIT_NOT_RUN);
}

pid_t
inner_run_start(struct inner_start *start)
{
    struct word_list command = command_of(start);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become(command.list, parent, start);
    words_free(command.list);
    words_free(start->words.list);
    return pid;
}

static void
ask(struct inner_run *run, int number)
{
    kill(run->pid, number);
    run->asked_ms = run->asked_ms != 0 ? run->asked_ms : clock_now_ms();
}

static int64_t
wait_ms(const struct inner_run *run)
{
    enum { LEAST_MS = 1, MOST_MS = 250 };
    if (run->look_each_ms != 0)
        return run->look_each_ms;
    const int64_t part_ms = (clock_now_ms() - run->begin_ms) / 16;
    if (part_ms < LEAST_MS)
        return LEAST_MS;
    return part_ms > MOST_MS ? MOST_MS : part_ms;
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
    int number = sigtimedwait(&wanted, NULL, &(struct timespec){.tv_nsec = wait_ms(run) * 1000000});
    if (number > 0 && number != SIGCHLD && number != SIGUSR1 && number != SIGUSR2) /* meant for ranks of a job */
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
