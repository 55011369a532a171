/*
 * job_cluster.c - the job of a cluster's launcher: joining it, and bringing its supervisors together (job.h).
 *
 * Every supervisor says hello to all over PMIx, prepared or not, so that what is wrong is said once, by supervisor 0,
 * and before anything has been started. Then the others connect to supervisor 0, and PMIx is not used again until the
 * end.
 */
#include "launcher/job.h"

#include "base/message.h"
#include "base/protocol.h"
#include "launcher/common/memory.h"
#include "launcher/options/terms.h"
#include "launcher/report/summary.h"
#include "launcher/start/file_limit.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct job
job_new(void)
{
    return (struct job){.input = {.read_end = -1, .write_end = -1},
                        .folder = {.fd = -1},
                        .signals = {.fd = -1},
                        .listener = {.fd = -1},
                        .link = {.epoll = -1, .listener = -1, .fd = -1}};
}

bool
job_join(struct job *job, struct problem *problem)
{
    bool has_pmix;
    job->inherited = environment_copy(environ);      /* before PMIx adds to it */
    job->has_launcher = getenv("PMIX_RANK") != NULL; /* which stays, unlike the membership, when a job begins anew */
    if (!cluster_look(&has_pmix, problem))
        return false;
    if (!has_pmix)
        return true;
    if (!signals_take_over(&job->signals, problem) || !cluster_join(&job->cluster, problem))
        return false;
    job->in_cluster = job->cluster.world_size > 1;
    if (!job->in_cluster) { /* srun -n 1 ddprun -n 8: the ranks are ours */
        cluster_leave(&job->cluster);
        job->cluster.world_size = 0;
    }
    return true;
}

/* ---- hello ---- */

enum { MORE_FILES = 256 }; /* that supervisor 0 may want besides */

static void
make_hello(struct job *job, const struct problem *bad, struct hello *hello)
{
    struct problem problem = {0};
    *hello = (struct hello){.pid = (int)getpid()};
    if (gethostname(hello->host, sizeof(hello->host) - 1) != 0 || hello->host[0] == '\0')
        memcpy(hello->host, "localhost", sizeof("localhost"));
    addresses_host_id(hello->host_id);
    if (bad != NULL)
        problem = *bad;
    else
        terms_write(&job->options, job->devices.softgpu, hello->terms, sizeof(hello->terms));
    if (bad == NULL && job->cluster.rank == 0) {
        unsigned connections =
            (unsigned)job->cluster.world_size * 2; /* a leaf's, and its rank's, which is handed over */
        if (file_limit_raise(connections + MORE_FILES, connections, &problem) &&
            addresses_find(job->options.interface, &hello->addresses, &problem) &&
            listener_open(&job->listener, job->cluster.world_size * 2 + 16, &problem) &&
            !proof_random(hello->secret, sizeof(hello->secret)))
            problem_set(&problem, DDPRUN_EXIT_FAILURE, "the system gives no random numbers (getrandom)");
        hello->port = job->listener.port;
    }
    hello->exit_code = problem.exit_code;
    if (problem.exit_code != 0)
        snprintf(hello->problem, sizeof(hello->problem), "%.1000s", problem.text);
}

static bool
read_hellos(const struct cluster_blob *blobs, struct hello *hellos, int count, struct problem *problem)
{
    for (int i = 0; i < count; ++i) {
        if (!hello_decode(blobs[i].bytes, blobs[i].count, &hellos[i]))
            return problem_set(problem, DDPRUN_EXIT_USAGE,
                               "rank %d's ddprun is of another version; install the same on all hosts", i);
    }
    return true;
}

/* Everybody reads everybody's: all come to the same answer. False: the problem; *common_p: all know it. */
static bool
exchange_hellos(struct job *job, const char *key, const struct hello *mine, const struct cluster_chore *chore,
                struct hello *hellos, bool *common_p, struct problem *problem)
{
    int count = job->cluster.world_size, timeout_s = (int)job->options.timeout_s;
    unsigned char bytes[HELLO_BYTES_AT_MOST];
    struct cluster_blob *blobs = memory_get((size_t)count, sizeof(*blobs));
    *common_p = cluster_exchange(&job->cluster, &job->signals, key, bytes, hello_encode(mine, bytes),
                                 timeout_s > 0 ? timeout_s : DDPRUN_DEFAULT_TIMEOUT_S, chore, blobs, problem);
    bool ok = *common_p && read_hellos(blobs, hellos, count, problem) && hello_agree(hellos, count, problem);
    for (int i = 0; i < count; ++i)
        free(blobs[i].bytes);
    free(blobs);
    return ok;
}

/* ---- connections ---- */

static bool
connect_all(struct job *job, struct problem *problem)
{
    const struct hello *root = &job->hellos[0];
    unsigned limit_s = job->options.heartbeat_timeout_s;
    if (job->cluster.rank == 0) {
        job->peers = peers_open(&job->listener, job->cluster.world_size, root->secret, limit_s, problem);
        return job->peers != NULL;
    }
    char host_id[HOST_ID_BYTES];
    addresses_host_id(host_id);
    int fd = peers_dial(root, host_id, PEER_SUPERVISOR, job->cluster.rank, &job->signals, problem);
    if (fd < 0)
        return false;
    peers_leaf_open(&job->leaf, root, job->cluster.rank, fd, limit_s);
    job->is_leaf = true;
    return true;
}

/* Lets the leaves in while they are waited for. */
struct door {
    struct peers *peers;
    struct rank_view *views; /* nothing is said of ranks yet */
};

static void
open_door(void *data)
{
    struct door *door = data;
    (void)peers_step(door->peers, door->views);
}

/* Nobody starts a rank before all know that all are connected. */
static bool
meet_connected(struct job *job, bool *common_p, struct problem *problem)
{
    struct hello mine = {.pid = (int)getpid()};
    struct problem own = {0};
    snprintf(mine.host, sizeof(mine.host), "%s", job->hellos[job->cluster.rank].host);
    if (!connect_all(job, &own)) {
        mine.exit_code = own.exit_code;
        snprintf(mine.problem, sizeof(mine.problem), "%.1000s", own.text);
    }
    size_t count = (size_t)job->cluster.world_size;
    struct hello *hellos = memory_get(count, sizeof(*hellos));
    struct door door = {.peers = job->peers, .views = memory_get(count, sizeof(*door.views))};
    struct cluster_chore chore = {.fd = -1, .step = open_door, .data = &door};
    if (job->peers != NULL)
        chore.fd = peers_fd(job->peers);
    bool ok =
        exchange_hellos(job, "ddprun.connected", &mine, job->peers != NULL ? &chore : NULL, hellos, common_p, problem);
    free(door.views);
    free(hellos);
    return ok;
}

bool
job_meet(struct job *job, const struct problem *bad, int *exit_code_p)
{
    struct hello mine;
    struct problem problem = {0};
    bool common = false;
    make_hello(job, bad, &mine);
    job->hellos = memory_get((size_t)job->cluster.world_size, sizeof(*job->hellos));
    if (exchange_hellos(job, "ddprun.supervisor", &mine, NULL, job->hellos, &common, &problem) &&
        meet_connected(job, &common, &problem))
        return true;
    /* What all know is said by one; the others wait, for a launcher ends all at the first bad exit code. */
    if (!common || job->cluster.rank == 0)
        message_line("%s", problem.text);
    if (job->cluster.rank == 0 && !job->options.dry_run)
        summary_write_refused(job->options.summary_json, &problem, message_line);
    if (common)
        cluster_wait_for_all(&job->cluster, &job->signals);
    *exit_code_p = problem.exit_code;
    return false;
}
