/*
 * job_cluster.c - the job of a cluster's launcher: joining it, and bringing its supervisors together (job.h).
 *
 * Every supervisor sends its handshake to all over PMIx, prepared or not, so that what is wrong is said once, by
 * supervisor 0, and before anything has been started. Then the others connect to supervisor 0, and PMIx is not used
 * again until the end.
 */
#include "launcher/job.h"

#include "base/message.h"
#include "base/printable.h"
#include "base/protocol.h"
#include "launcher/common/file_read.h"
#include "launcher/common/network.h"
#include "launcher/common/xcalloc.h"
#include "launcher/options/options.h"
#include "launcher/report/summary.h"
#include "launcher/start/file_limit.h"

struct job
job_new(void)
{
    return (struct job){.input = {.read_end = -1, .write_end = -1},
                        .empty = {.fd = -1},
                        .folder = {.fd = -1},
                        .signals = {.fd = -1},
                        .trace_fd = -1,
                        .listener = {.fd = -1},
                        .link = {.epoll = -1, .listener = -1}};
}

struct launch_request
job_launch_request(const struct options *options)
{
    return (struct launch_request){.rank_count = options->rank_count,
                                   .node_count = options->node_count,
                                   .node_rank = options->node_rank_given ? (int)options->node_rank : -1,
                                   .master = options->master};
}

bool
job_speaks_for_host(const struct job *job)
{
    return job->launched.nodes == 0 || job->launched.local_rank == 0 || job->options.verbose;
}

static bool
has_common_output(enum launched_by by)
{
    return by == LAUNCHED_BY_PMIX || by == LAUNCHED_BY_SLURM || by == LAUNCHED_BY_MPI;
}

bool
job_speaks_for_other_host(const struct job *job)
{
    const struct handshake *handshakes = job->handshakes;
    if (has_common_output(job->launched.by))
        return false;
    for (int i = 0; i < job->cluster.rank; ++i) {
        if (strcmp(handshakes[i].host_id, handshakes[job->cluster.rank].host_id) == 0)
            return false;
    }
    return true;
}

/* A process that trains alone where it may not be meant to is named at once. */
static void
say_alone(const struct launch_request *request)
{
    char text[320];
    launched_describe_alone(request, text, sizeof(text));
    if (text[0] != '\0')
        message_line("%s", text);
}

bool
job_join(struct job *job, struct error *error)
{
    const struct launch_request request = job_launch_request(&job->options);
    struct launched *launched = &job->launched;
    job->inherited = environment_copy(environ);      /* before PMIx adds to it */
    job->has_launcher = getenv("PMIX_RANK") != NULL; /* which stays, unlike the membership, when a job begins anew */
    if (!launched_look(&request, launched, error))
        return false;
    launched->restart += job->restarts;
    if (job->options.verbose && launched->by != LAUNCHED_ALONE)
        message_line("started as one of several processes, by %s", launched->variables);
    if (launched->by == LAUNCHED_ALONE)
        say_alone(&request);
    if (launched->is_host)
        job->options.rank_count = launched->rank_count; /* -n, or PET_NPROC_PER_NODE */
    bool is_refused = job->options.program == NULL;     /* its options are wrong, and those of the others, too */
    if (launched->by == LAUNCHED_ALONE || launched->is_host ||
        (launched->address[0] != '\0' && launched->nodes == 0 && is_refused))
        return true;
    const struct cluster_terms terms = {.secret_file = job->options.secret_file,
                                        .job = job->options.job_name,
                                        .timeout_s = (int)job->options.timeout_s};
    if (!signals_take_over(&job->signals, error) ||
        !cluster_join(&job->cluster, launched, &terms, &job->signals, error))
        return false;
    job->in_cluster = job->cluster.world_size > 1;
    if (!job->in_cluster) { /* srun -n 1 ddprun -n 8: the ranks are ours */
        cluster_leave(&job->cluster);
        job->cluster.world_size = 0;
    }
    return true;
}

/* ---- handshake ---- */

enum { MORE_FILES = 256 }; /* that supervisor 0 may want besides */

static void
make_handshake(struct job *job, const struct error *bad, struct handshake *handshake)
{
    struct error error = {0};
    *handshake = (struct handshake){.pid = (int)getpid()};
    snprintf(handshake->host, sizeof(handshake->host), "%.63s", host_name());
    addresses_host_id(handshake->host_id);
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    snprintf(handshake->visible, sizeof(handshake->visible), "%s", visible != NULL ? visible : "");
    if (bad != NULL)
        error = *bad;
    else
        terms_write(&job->options, job->devices.softgpu, handshake->terms, sizeof(handshake->terms));
    if (job->options.program != NULL)
        handshake_take_command(handshake, job->options.program);
    if (bad == NULL && job->cluster.rank == 0) {
        unsigned connections =
            (unsigned)job->cluster.world_size * 2; /* a client's, and its rank's, which is handed over */
        if (file_limit_raise(connections + MORE_FILES, connections, &error) &&
            addresses_find(job->options.interface, &handshake->addresses, &error) &&
            listener_open(&job->listener, 0, job->cluster.world_size * 2 + 16, &error) &&
            !auth_random(handshake->secret, sizeof(handshake->secret)))
            error_set(&error, DDPRUN_EXIT_FAILURE, "the system gives no random numbers (getrandom)");
        handshake->port = job->listener.port;
    }
    handshake->exit_code = error.exit_code;
    if (error.exit_code != 0)
        snprintf(handshake->error, sizeof(handshake->error), "%.1000s", error.text);
}

/* Every launcher reads all handshakes, so that all reach the same answer. False: the error; *common_p: all know it. */
static bool
exchange_handshakes(struct job *job, const char *key, const struct handshake *mine, struct handshake *handshakes,
                    bool *common_p, struct error *error)
{
    int count = job->cluster.world_size;
    bool is_made_now = job->is_plan_made && strcmp(key, "ddprun.plan") == 0; /* each run that it takes has its time */
    unsigned char bytes[HANDSHAKE_BYTES_AT_MOST];
    struct cluster_blob *blobs = xcalloc((size_t)count, sizeof(*blobs));
    *common_p = cluster_exchange(&job->cluster, &job->signals, key, bytes, handshake_encode(mine, bytes),
                                 (int)job->options.timeout_s * (is_made_now ? 4 : 1), job->server, blobs, error);
    bool ok = *common_p;
    for (int i = 0; i < count; ++i) {
        ok = ok && (handshake_decode(blobs[i].bytes, blobs[i].count, &handshakes[i]) ||
                    error_set(error, DDPRUN_EXIT_USAGE,
                              "rank %d's ddprun is of another version; install the same on all hosts", i));
        free(blobs[i].bytes);
    }
    free(blobs);
    return ok && handshake_agree(handshakes, count, error);
}

/* Where nothing but an address says that these are one job, different commands are those of two jobs, or a mistake.
 * Else they may be meant: paths by host, a number of the rank. */
static bool
compare_commands(const struct job *job, struct error *error)
{
    char commands[2 * HANDSHAKE_COMMAND_BYTES];
    const struct launched *launched = &job->launched;
    bool has_name = job->options.job_name != NULL || launched->run[0] != '\0' || launched->address[0] == '\0';
    int other = handshake_find_other_command(job->handshakes, job->cluster.world_size, commands);
    if (other == 0)
        return true;
    if (!has_name)
        return error_set(
            error, DDPRUN_EXIT_USAGE,
            "ranks 0 (host %s) and %d (host %s) were started with different commands at the same address: give all "
            "ranks the same command, or each job a name of its own (--job NAME), so that its commands may differ%s",
            job->handshakes[0].host, other, job->handshakes[other].host, commands);
    if (job->cluster.rank == 0)
        message_warning("commands", "ranks 0 (host %s) and %d (host %s) were started with different commands%s",
                        job->handshakes[0].host, other, job->handshakes[other].host, commands);
    return true;
}

/* ---- connections ---- */

static bool
connect_all(struct job *job, struct error *error)
{
    const struct handshake *root = &job->handshakes[0];
    unsigned limit_s = job->options.heartbeat_timeout_s;
    if (job->cluster.rank == 0) {
        job->server = supervisor_server_open(&job->listener, job->cluster.world_size, root->secret, limit_s, error);
        return job->server != NULL;
    }
    char host_id[HOST_ID_BYTES];
    addresses_host_id(host_id);
    unsigned char key[AUTH_BYTES];
    int fd = supervisor_connect(root, host_id, PEER_SUPERVISOR, job->cluster.rank, &job->signals, key, error);
    if (fd < 0)
        return false;
    supervisor_client_open(&job->client, root, job->cluster.rank, fd, key, limit_s);
    job->is_client = true;
    return true;
}

/* All tell each other how something went; `own` is empty where it went well. *plan_bytes_p becomes rank 0's. */
static bool
exchange_outcomes(struct job *job, const char *key, const struct error *own, int *plan_bytes_p, bool *common_p,
                  struct error *error)
{
    struct handshake mine = {.pid = (int)getpid(), .exit_code = own->exit_code, .plan_bytes = *plan_bytes_p};
    struct handshake *handshakes = xcalloc((size_t)job->cluster.world_size, sizeof(*handshakes));
    snprintf(mine.host, sizeof(mine.host), "%s", job->handshakes[job->cluster.rank].host);
    snprintf(mine.error, sizeof(mine.error), "%.1000s", own->text);
    bool ok = exchange_handshakes(job, key, &mine, handshakes, common_p, error);
    *plan_bytes_p = handshakes[0].plan_bytes;
    free(handshakes);
    return ok;
}

/* Tasks may each be bound to some GPUs of the host (srun --gpu-bind=closest): then a rank counts among those that see
 * the same ones. */
static bool
settle_devices(struct job *job, struct error *error)
{
    struct handshake_neighbours found =
        handshake_find_neighbours(job->handshakes, job->cluster.world_size, job->cluster.rank);
    if (found.among == found.on_host) /* all see the same: as each has counted by itself */
        found = (struct handshake_neighbours){job->cluster.local_rank, job->cluster.local_size, 0};
    if (!job->devices.is_open || job_settle_devices(job, found.place, found.among, error))
        return true;
    if (getenv("SLURM_PROCID") != NULL)
        printable_append(error->text, sizeof(error->text),
                         "; if srun binds tasks to GPUs, add --gpu-bind=none to srun");
    return false;
}

/* No launcher starts a rank before all know that all are connected. */
static bool
meet_connected(struct job *job, bool *common_p, struct error *error)
{
    struct error own = {0};
    int bytes = 0;
    (void)!(connect_all(job, &own) && settle_devices(job, &own));
    return exchange_outcomes(job, "ddprun.connected", &own, &bytes, common_p, error);
}

/* ---- the plan, which is rank 0's: no other host needs its file ---- */

/* PART_BYTES: of a round by address, within FRAME_BYTES_AT_MOST. */
enum { PLAN_MOST_BYTES = 128 << 20, PART_BYTES = 60000 };

/* Makes it, or reads its file. The others wait meanwhile. */
static void
take_own_plan(struct job *job, struct error *error)
{
    if (job->is_plan_made && !job->find_plan(job, error))
        return;
    job->plan = file_read(job->options.plan, PLAN_MOST_BYTES, &job->plan_bytes, NULL);
    if (job->plan == NULL)
        (void)file_read_refused("the plan ", job->options.plan, ", in --plan", error);
}

/* In rounds, to which the others give a byte: PMIx has no empty values. */
static bool
take_parts(struct job *job, struct error *error)
{
    size_t most = job->launched.address[0] != '\0' ? PART_BYTES : job->plan_bytes; /* PMIx has no frames */
    int count = job->cluster.world_size;
    bool ok = true, is_root = job->cluster.rank == 0;
    struct cluster_blob *blobs = xcalloc((size_t)count, sizeof(*blobs));
    if (!is_root)
        job->plan = xcalloc(1, job->plan_bytes);
    for (size_t at = 0, part; ok && at < job->plan_bytes; at += part) {
        char key[48];
        snprintf(key, sizeof(key), "ddprun.plan.%zu", at);
        part = job->plan_bytes - at < most ? job->plan_bytes - at : most;
        ok = cluster_exchange(&job->cluster, &job->signals, key, job->plan + at, is_root ? part : 1,
                              (int)job->options.timeout_s, NULL, blobs, error) &&
             (blobs[0].count == part || error_set(error, DDPRUN_EXIT_FAILURE, "a part of the plan is missing"));
        if (ok)
            memcpy(job->plan + at, blobs[0].bytes, part);
        for (int i = 0; i < count; ++i)
            free(blobs[i].bytes);
        memset(blobs, 0, (size_t)count * sizeof(*blobs));
    }
    free(blobs);
    return ok;
}

static bool
share_plan(struct job *job, bool *common_p, struct error *error)
{
    struct error own = {0};
    if (job->options.plan == NULL)
        return true;
    if (job->cluster.rank == 0)
        take_own_plan(job, &own);
    else if (job->is_plan_made && job->cluster.local_rank == 0 && !job->options.quiet)
        message_line("host %s waits for the plan, which rank 0 makes on host %s",
                     job->handshakes[job->cluster.rank].host, job->handshakes[0].host);
    int bytes = (int)job->plan_bytes;
    bool ok = exchange_outcomes(job, "ddprun.plan", &own, &bytes, common_p, error);
    if (!ok && !*common_p && own.exit_code != 0) /* which the others have not heard: a signal has ended them, too */
        *error = own;
    *common_p = *common_p && !ok;
    job->plan_bytes = (size_t)bytes;
    return ok && (bytes > 0 && bytes <= PLAN_MOST_BYTES
                      ? take_parts(job, error)
                      : error_set(error, DDPRUN_EXIT_USAGE, "rank 0's file of --plan is empty"));
}

/* What keeps this host from starting its ranks. */
static int
refuse_on_host(struct job *job, const struct error *bad)
{
    if (job_speaks_for_host(job))
        message_line("%s", bad->text);
    if (job->cluster.rank == 0 && !job->options.dry_run)
        summary_write_refused(job->options.summary_json, bad);
    cluster_tell(&job->cluster, &job->signals, bad);
    return bad->exit_code;
}

/* Why ranks have not met. What all know is said by one on each host whose output is seen there alone; the others wait,
 * for a launcher ends all at the first bad exit code. */
static void
say_why_not(const struct job *job, bool common, const struct error *error)
{
    bool is_first = job->cluster.rank == 0;
    if (!common && !job_speaks_for_host(job))
        return;
    if (!common || is_first)
        message_line("%s", error->text);
    else if (job_speaks_for_other_host(job))
        message_line("the ddprun of rank 0 (host %s) ends the job: %s", job->handshakes[0].host, error->text);
}

bool
job_meet(struct job *job, const struct error *bad, int *exit_code_p)
{
    struct handshake mine;
    struct error error = {0};
    bool common = false;
    if (bad != NULL && job->launched.nodes > 0) { /* said on this host at once, whether others have come or not */
        *exit_code_p = refuse_on_host(job, bad);
        return false;
    }
    make_handshake(job, bad, &mine);
    job->handshakes = xcalloc((size_t)job->cluster.world_size, sizeof(*job->handshakes));
    if (exchange_handshakes(job, "ddprun.supervisor", &mine, job->handshakes, &common, &error) &&
        compare_commands(job, &error) && share_plan(job, &common, &error) &&
        (job->cluster.member->make_secret == NULL || job->cluster.member->make_secret(job->handshakes[0].secret) ||
         error_set(&error, DDPRUN_EXIT_FAILURE, "libcrypto cannot make the job's secret")) &&
        meet_connected(job, &common, &error)) {
        job->cluster.member->end_fences();
        job->have_met = true;
        return true;
    }
    say_why_not(job, common, &error);
    if (job->cluster.rank == 0 && !job->options.dry_run)
        summary_write_refused(job->options.summary_json, &error);
    if (common)
        cluster_wait_for_all(&job->cluster, &job->signals);
    *exit_code_p = error.exit_code;
    return false;
}
