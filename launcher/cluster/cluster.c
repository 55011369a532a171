/*
 * cluster.c - see cluster.h. PMIx 4 (pmix_common.h for the keys).
 */
#include "launcher/cluster/cluster.h"

#include "base/clock.h"
#include "base/protocol.h"
#include "launcher/cluster/descriptors.h"
#include "launcher/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <pmix.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { LAST_WAIT_S = 5, CHORE_MS = 100 };

static pmix_proc_t self;
static int wake_fd = -1; /* written by callbacks */
static _Atomic bool launcher_gone;
static _Atomic bool fence_over;
static _Atomic int fence_status;

static void
wake(void)
{
    ssize_t ignored = write(wake_fd, "x", 1);
    (void)ignored;
}

/* ---- which launcher ---- */

static int
number_of(const char *variable)
{
    const char *text = getenv(variable);
    return text != NULL ? atoi(text) : 0;
}

bool
cluster_look(bool *has_pmix_p, struct problem *problem)
{
    const char *outer = getenv(DDPRUN_ENV_JOB_DIR);
    if (outer != NULL && getenv(DDPRUN_ENV_PROTOCOL) != NULL)
        return problem_set(problem, DDPRUN_EXIT_USAGE,
                           "ddprun was started inside a rank of another ddprun (%s=%s); start it once, outside",
                           DDPRUN_ENV_JOB_DIR, outer);
    *has_pmix_p = getenv("PMIX_NAMESPACE") != NULL && getenv("PMIX_RANK") != NULL;
    if (*has_pmix_p)
        return true;

    int tasks = number_of("SLURM_STEP_NUM_TASKS");
    if (tasks > 1)
        return problem_set(problem, DDPRUN_EXIT_USAGE,
                           "Slurm started ddprun as %d tasks%s%s, which do not know each other, and each would train "
                           "alone; add --mpi=pmix: srun --mpi=pmix -n %d ddprun ...",
                           tasks, getenv("PMI_RANK") != NULL ? " with --mpi=pmi2" : "",
                           getenv("PMI_RANK") != NULL ? "" : " without --mpi=pmix", tasks);
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
        if (number_of(sizes[i]) > 1)
            return problem_set(
                problem, DDPRUN_EXIT_USAGE,
                "another launcher started ddprun %d times (%s) without PMIx, and each would train alone; use mpirun of "
                "Open MPI 4 or later, prterun or srun --mpi=pmix, or start ddprun once, with -n",
                number_of(sizes[i]), sizes[i]);
    }
    return true;
}

/* ---- joining ---- */

/* On PMIx's thread: must not wait, nor call PMIx. */
static void
connection_lost(size_t registration, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *info,
                size_t info_count, pmix_info_t *results, size_t result_count, pmix_event_notification_cbfunc_fn_t done,
                void *done_data)
{
    (void)registration, (void)status, (void)source, (void)info, (void)info_count, (void)results, (void)result_count;
    atomic_store(&launcher_gone, true);
    wake();
    if (done != NULL)
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, done_data);
}

bool
cluster_launcher_is_gone(void)
{
    return atomic_load(&launcher_gone);
}

/* A number that the launcher has for the whole job (`rank` = wildcard) or for one rank. */
static bool
get_number(pmix_rank_t rank, const char *name, int *number_p)
{
    pmix_proc_t of;
    PMIX_LOAD_PROCID(&of, self.nspace, rank);
    pmix_value_t *value = NULL;
    if (PMIx_Get(&of, name, NULL, 0, &value) != PMIX_SUCCESS || value == NULL)
        return false;
    bool known = true;
    switch (value->type) {
    case PMIX_UINT16:
        *number_p = value->data.uint16;
        break;
    case PMIX_UINT32:
        *number_p = (int)value->data.uint32;
        break;
    case PMIX_INT:
        *number_p = value->data.integer;
        break;
    default:
        known = false;
    }
    PMIX_VALUE_RELEASE(value);
    return known;
}

static bool
refused(struct problem *problem, const char *what, pmix_status_t status)
{
    return problem_set(problem, DDPRUN_EXIT_FAILURE,
                       "%s: %s; is the launcher's PMIx (srun --mpi=pmix, mpirun) of another version than ddprun's?",
                       what, PMIx_Error_string(status));
}

/* Two processes with one PMIx rank corrupt every fence (facts): an abstract name that only one can have. */
static bool
claim_rank(struct cluster *cluster, struct problem *problem)
{
    enum { KEPT = 60 }; /* of the job's name: its end, with the numbers (slurm.pmix.7.0, prterun-HOST-PROCESS@1) */
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const char *job = getenv("PMIX_NAMESPACE");
    if (strlen(job) > KEPT)
        job += strlen(job) - KEPT;
    cluster->claim = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "ddprun-%u-%s-%s", (unsigned)geteuid(), job,
                          getenv("PMIX_RANK"));
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    if (cluster->claim >= 0 && length > 0 && (size_t)length < sizeof(name.sun_path) - 1 &&
        bind(cluster->claim, (struct sockaddr *)&name, size) == 0)
        return true;
    return problem_set(problem, DDPRUN_EXIT_USAGE,
                       "another ddprun already is rank %s of this launcher's job (%s); start one for each rank",
                       getenv("PMIX_RANK"), strerror(errno));
}

bool
cluster_join(struct cluster *cluster_p, struct problem *problem)
{
    struct cluster cluster = {.pipe = {-1, -1}, .claim = -1};
    if (!claim_rank(&cluster, problem))
        return false;
    if (pipe2(cluster.pipe, O_CLOEXEC | O_NONBLOCK) != 0)
        return problem_set(problem, DDPRUN_EXIT_FAILURE, "cannot make a pipe: %s; raise the limit of open files",
                           strerror(errno));
    wake_fd = cluster.pipe[1];
    struct descriptors before = descriptors_list();
    pmix_status_t status = PMIx_Init(&self, NULL, 0);
    descriptors_keep_new(&before); /* its connection to the launcher is ours, not the trainer's */
    descriptors_free(&before);
    if (status != PMIX_SUCCESS)
        return refused(problem, "cannot join the launcher's job by PMIx", status);
    if (!get_number(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, &cluster.world_size) || cluster.world_size < 1 ||
        self.rank >= (unsigned)cluster.world_size || !get_number(self.rank, PMIX_LOCAL_RANK, &cluster.local_rank) ||
        !get_number(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE, &cluster.local_size))
        return problem_set(problem, DDPRUN_EXIT_FAILURE,
                           "the launcher's PMIx does not say how many ranks there are, or on this host "
                           "(PMIX_JOB_SIZE, PMIX_LOCAL_SIZE, PMIX_LOCAL_RANK); a second ddprun in the same task wants "
                           "a step of its own: call srun or mpirun again");
    cluster.rank = (int)self.rank;
    /* Explicit codes: a handler for everything is never called in PMIx 4 (facts). */
    pmix_status_t code = PMIX_ERR_LOST_CONNECTION;
    PMIx_Register_event_handler(&code, 1, NULL, 0, connection_lost, NULL, NULL);
    *cluster_p = cluster;
    return true;
}

void
cluster_leave(struct cluster *cluster)
{
    if (!cluster_launcher_is_gone())
        (void)PMIx_Finalize(NULL, 0);
    close(cluster->claim);
    close(cluster->pipe[0]);
    close(cluster->pipe[1]);
}

/* ---- the exchange ---- */

static void
fence_done(pmix_status_t status, void *data)
{
    (void)data;
    atomic_store(&fence_status, status);
    atomic_store(&fence_over, true);
    wake();
}

static bool
publish(const char *key, const void *bytes, size_t count, struct problem *problem)
{
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT};
    value.data.bo.bytes = (char *)(uintptr_t)bytes;
    value.data.bo.size = count;
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key, &value);
    if (status == PMIX_SUCCESS)
        status = PMIx_Commit();
    return status == PMIX_SUCCESS || refused(problem, "cannot publish this rank's address by PMIx", status);
}

/* Waits for the fence with an eye on signals: a launcher that gives up sends one. */
static bool
wait_for_fence(const struct cluster *cluster, const struct signals *signals, int timeout_s,
               const struct cluster_chore *chore, struct problem *problem)
{
    int64_t deadline_ms = clock_now_ms() + (int64_t)timeout_s * 1000;
    while (!atomic_load(&fence_over)) {
        struct pollfd polled[3] = {{.fd = cluster->pipe[0], .events = POLLIN},
                                   {.fd = signals->fd, .events = POLLIN},
                                   {.fd = chore != NULL ? chore->fd : -1, .events = POLLIN}};
        int64_t left_ms = deadline_ms - clock_now_ms();
        char bytes[64];
        if (chore != NULL && left_ms > CHORE_MS)
            left_ms = CHORE_MS;
        poll(polled, 3, left_ms > 0 ? (int)left_ms : 0);
        if (chore != NULL)
            chore->step(chore->data);
        while (read(cluster->pipe[0], bytes, sizeof(bytes)) > 0) {
        }
        for (int number; (number = signals_next(signals)) != 0;) {
            if (number != SIGCHLD && number != SIGTSTP && !signals_is_for_ranks(number))
                return problem_set(problem, 128 + number, "SIG%s while waiting for the other ranks to begin",
                                   sigabbrev_np(number));
        }
        if (cluster_launcher_is_gone())
            return problem_set(problem, DDPRUN_EXIT_FAILURE, "the launcher that started ddprun is gone");
        if (clock_now_ms() >= deadline_ms)
            return problem_set(problem, DDPRUN_EXIT_FAILURE,
                               "waited %d s for the other ranks to begin, as --timeout says; has ddprun started on all "
                               "hosts?",
                               timeout_s);
    }
    int status = atomic_load(&fence_status);
    return status == PMIX_SUCCESS || refused(problem, "the ranks' first exchange by PMIx failed", status);
}

static bool
fetch(const char *key, int rank, struct cluster_blob *blob, struct problem *problem)
{
    pmix_proc_t of;
    PMIX_LOAD_PROCID(&of, self.nspace, (pmix_rank_t)rank);
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&of, key, NULL, 0, &value);
    if (status != PMIX_SUCCESS || value == NULL)
        return problem_set(problem, DDPRUN_EXIT_FAILURE,
                           "rank %d has left before the ranks' first exchange (%s); its output may say why", rank,
                           PMIx_Error_string(status));
    bool is_blob = value->type == PMIX_BYTE_OBJECT;
    if (is_blob) {
        blob->count = value->data.bo.size;
        blob->bytes = memory_get(1, blob->count + 1);
        memcpy(blob->bytes, value->data.bo.bytes, blob->count);
    }
    PMIX_VALUE_RELEASE(value);
    return is_blob || problem_set(problem, DDPRUN_EXIT_FAILURE,
                                  "rank %d published something else than ddprun does; is it the same ddprun?", rank);
}

static bool
fence(const struct cluster *cluster, const struct signals *signals, int timeout_s, const struct cluster_chore *chore,
      struct problem *problem)
{
    static bool collect = true;
    static pmix_info_t info;
    static pmix_proc_t everyone; /* PMIx may read it until the fence is done */
    atomic_store(&fence_over, false);
    PMIX_LOAD_PROCID(&everyone, self.nspace, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    pmix_status_t status = PMIx_Fence_nb(&everyone, 1, &info, 1, fence_done, NULL);
    if (status == PMIX_OPERATION_SUCCEEDED)
        return true;
    if (status != PMIX_SUCCESS)
        return refused(problem, "the ranks' first exchange by PMIx failed", status);
    return wait_for_fence(cluster, signals, timeout_s, chore, problem);
}

bool
cluster_exchange(struct cluster *cluster, const struct signals *signals, const char *key, const void *mine,
                 size_t bytes, int timeout_s, const struct cluster_chore *chore, struct cluster_blob *blobs,
                 struct problem *problem)
{
    bool ok = publish(key, mine, bytes, problem) && fence(cluster, signals, timeout_s, chore, problem);
    for (int i = 0; ok && i < cluster->world_size; ++i)
        ok = fetch(key, i, &blobs[i], problem);
    return ok;
}

void
cluster_wait_for_all(struct cluster *cluster, const struct signals *signals)
{
    struct problem ignored;
    (void)!fence(cluster, signals, LAST_WAIT_S, NULL, &ignored);
}
