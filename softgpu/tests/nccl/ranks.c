/* ranks.c - see ranks.h. */
#include "ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

static double
now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void
nap(void)
{
    struct timespec pause = {.tv_nsec = 1000000};
    nanosleep(&pause, NULL);
}

void
ranks_fail(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    exit(1);
}

void
ranks_await(_Atomic int *flag, int value)
{
    double deadline = now_s() + RANKS_DEADLINE_S;
    while (atomic_load(flag) < value) {
        if (now_s() > deadline)
            ranks_fail(__FILE__, __LINE__, "a flag was set in time");
        nap();
    }
}

void
ranks_meet(_Atomic int *flag, int rank_count)
{
    atomic_fetch_add(flag, 1);
    ranks_await(flag, rank_count);
}

struct ranks_shared *
ranks_shared_new(void)
{
    void *memory = mmap(NULL, sizeof(struct ranks_shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    return memory;
}

void
ranks_shared_free(struct ranks_shared *shared)
{
    munmap(shared, sizeof(*shared));
}

/* One look at a child: true while it runs; otherwise *status_p is set and it is no more. */
static bool
still_runs(pid_t pid, int *status_p)
{
    pid_t got = waitpid(pid, status_p, WNOHANG);
    return got == 0 || (got < 0 && errno == EINTR);
}

/* The host that TEST_HOSTS puts a rank on, as NCCL_HOSTID: rank r's is character r of it, from the beginning again. */
static void
take_host(int rank)
{
    const char *hosts = getenv("TEST_HOSTS");
    if (!hosts || !*hosts)
        return;
    char name[] = {hosts[(size_t)rank % strlen(hosts)], '\0'}, path[200];
    const char *networks = getenv("TEST_NETWORKS");
    if (!networks) {
        setenv("NCCL_HOSTID", name, 1);
        setenv("NCCL_SOCKET_IFNAME", "lo", 1);
        return;
    }
    snprintf(path, sizeof(path), "%s%s", networks, name);
    int network = open(path, O_RDONLY | O_CLOEXEC);
    if (network < 0 || setns(network, CLONE_NEWNET) < 0)
        ranks_fail(__FILE__, __LINE__, "the rank enters the namespace that TEST_NETWORKS and TEST_HOSTS name");
    close(network);
}

bool
ranks_run_shared(int rank_count, rank_function function, unsigned may_die, struct ranks_shared *shared)
{
    pid_t pids[RANKS_MAX];
    fflush(NULL);
    for (int r = 0; r < rank_count; ++r) {
        pids[r] = fork();
        if (pids[r] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            take_host(r);
            exit(function(r, rank_count, shared));
        }
    }
    bool good = true;
    double deadline = now_s() + RANKS_DEADLINE_S;
    for (int left = rank_count; left > 0; nap()) {
        bool late = now_s() > deadline;
        for (int r = 0; r < rank_count; ++r) {
            int status = 0;
            if (pids[r] < 0)
                continue;
            if (late) {
                fprintf(stderr, "rank %d of %d is not done at the deadline\n", r, rank_count);
                kill(pids[r], SIGKILL);
                waitpid(pids[r], &status, 0);
                good = false;
            } else if (still_runs(pids[r], &status)) {
                continue;
            }
            pids[r] = -1;
            --left;
            if (status != 0 && !(may_die >> r & 1u)) {
                fprintf(stderr, "rank %d of %d ended with status %#x\n", r, rank_count, status);
                good = false;
            }
        }
    }
    return good;
}

bool
ranks_run(int rank_count, rank_function function, unsigned may_die)
{
    struct ranks_shared *shared = ranks_shared_new();
    bool good = ranks_run_shared(rank_count, function, may_die, shared);
    ranks_shared_free(shared);
    return good;
}
