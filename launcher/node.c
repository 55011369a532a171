/*
 * node.c - the ddprun of one host of several (--nnodes, PET_NNODES): starts one ddprun for each rank here and stays
 * with them (job.h).
 *
 * The job is theirs: they meet those of the other hosts (job_cluster.c), and begin anew by themselves (main.c). This
 * process passes signals on and ends as the first of them that fails. They share its process group, so that what a
 * terminal sends reaches all of them, and its output.
 */
#include "launcher/job.h"

#include "base/clock.h"
#include "base/message.h"
#include "base/protocol.h"
#include "launcher/common/xcalloc.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

/* For which the others may stay once one has failed (and for the time that ranks have to save their work: --grace), and
 * then once they were asked to end. */
enum { OTHERS_MS = 15000, LOOK_MS = 1000 };

struct node {
    const struct signals *signals;
    pid_t *pids; /* [count]; 0: has ended */
    int count, left;
    int exit_code; /* of the first that failed */
    int64_t grace_ms;
    int64_t ends_ms; /* when the others are asked to end; 0: not yet known */
};

/* In the child. Input is rank 0's. */
static void
become_member(const struct job *job, char **argv, char **environment, bool has_input, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGNALS_ORPHANED);
    int nothing = has_input ? STDIN_FILENO : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (getppid() != parent || nothing < 0 || (!has_input && dup2(nothing, STDIN_FILENO) < 0))
        _exit(DDPRUN_EXIT_FAILURE);
    signals_give_back(&job->signals);
    execve("/proc/self/exe", argv, environment);
    _exit(DDPRUN_EXIT_NOT_RUN);
}

static bool
start_members(const struct job *job, char **argv, struct node *node, struct error *error)
{
    pid_t own = getpid();
    for (int i = 0; i < node->count; ++i) {
        char **environment = environment_copy(job->inherited);
        char *member = xasprintf(LAUNCHED_MEMBER_FORMAT, i, node->count);
        environment_set(&environment, DDPRUN_ENV_MEMBER, member);
        free(member);
        pid_t pid = fork();
        if (pid == 0)
            become_member(job, argv, environment, i == 0 && job->launched.node_rank == 0, own);
        words_free(environment);
        if (pid < 0)
            return error_set(error, DDPRUN_EXIT_NOT_RUN, "cannot start the ddprun of rank %d: %s; raise ulimit -u",
                             job->launched.node_rank * node->count + i, strerror(errno));
        node->pids[i] = pid;
        ++node->left;
    }
    return true;
}

static void
signal_members(const struct node *node, int number)
{
    for (int i = 0; i < node->count; ++i) {
        if (node->pids[i] > 0)
            kill(node->pids[i], number);
    }
}

/* One that fails ends the job, and thereby the others; before the job has begun they may wait for it. */
static void
note_end(struct node *node, pid_t pid, int status)
{
    int exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    for (int i = 0; i < node->count; ++i) {
        if (node->pids[i] != pid)
            continue;
        node->pids[i] = 0;
        --node->left;
        if (WIFSIGNALED(status)) /* it printed no line itself; the others may have ended for that before */
            message_line("the ddprun of local rank %d (process %d) was ended by SIG%s", i, (int)pid,
                         sigabbrev_np(WTERMSIG(status)));
        if (exit_code == 0 || node->exit_code != 0)
            continue;
        node->exit_code = exit_code;
        node->ends_ms = clock_now_ms() + OTHERS_MS + node->grace_ms;
    }
}

/* A signal of the terminal has reached all processes of its foreground group, the members too. But SIGHUP of a closed
 * terminal reaches the leader of its session alone. */
static void
pass_on(const struct node *node, const struct signalfd_siginfo *info)
{
    int number = (int)info->ssi_signo;
    if (number == SIGCHLD)
        return;
    if (info->ssi_code != SI_KERNEL || (number == SIGHUP && getsid(0) == getpid()))
        signal_members(node, number);
    if (number == SIGTSTP) {
        raise(SIGSTOP);
        signal_members(node, SIGCONT);
    }
}

static void
stay(struct node *node)
{
    struct signalfd_siginfo info;
    struct pollfd polled = {.fd = node->signals->fd, .events = POLLIN};
    while (node->left > 0) {
        int status;
        (void)poll(&polled, 1, LOOK_MS);
        while (read(node->signals->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
            pass_on(node, &info);
        for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
            note_end(node, pid, status);
        if (node->ends_ms != 0 && clock_now_ms() >= node->ends_ms) {
            signal_members(node, SIGTERM);
            node->ends_ms += OTHERS_MS;
        }
    }
}

bool
node_run(struct job *job, char **argv, int *exit_code_p, struct error *error)
{
    struct node node = {.signals = &job->signals, .grace_ms = (int64_t)job->options.job.grace_s * 1000};
    /* If an option is wrong or the program missing, those of its ranks find that, too, and tell the others. */
    bool is_right = job->options.program != NULL, is_chosen = is_right && job_choose(job, error);
    bool tells = !is_chosen && job->options.rank_count > 0 && (!is_right || error->exit_code == DDPRUN_EXIT_NOT_RUN);
    if ((!is_chosen && !tells) || !signals_take_over(&job->signals, error))
        return false;
    node.count = is_chosen ? job->devices.rank_count : job->options.rank_count;
    node.pids = xcalloc((size_t)node.count, sizeof(*node.pids));
    bool ok = start_members(job, argv, &node, error);
    if (!ok)
        signal_members(&node, SIGTERM);
    stay(&node);
    free(node.pids);
    *exit_code_p = node.exit_code;
    return ok;
}
