/*
 * job_cluster.c - the job of a cluster's launcher: joining it, and bringing its supervisors together (job.h).
 *
 * Every supervisor sends its handshake to all over PMIx, prepared or not, so that what is wrong is said once, by
 * supervisor 0, and before anything has been started. Then the others connect to supervisor 0, and PMIx is not used
 * again until the end.
 */
#include "launcher/job.h"

#include "base/message.h"
#include "base/protocol.h"
#include "launcher/common/xcalloc.h"
#include "launcher/options/options.h"
#include "launcher/report/summary.h"
#include "launcher/start/spawn.h"

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
                        .trace_fd = -1,
                        .listener = {.fd = -1},
                        .link = {.epoll = -1, .listener = -1}};
}

/* -v: the variables by which this process is one of several, or those that look so. */
static void
tell_launched(const struct launched *launched)
{
    if (launched->by != LAUNCHED_ALONE)
        message_line("started as one of several processes, by %s", launched->variables);
    else if (launched->variables[0] != '\0')
        message_line("started alone: %s in the environment is not from a launcher of several processes",
                     launched->variables);
}

/* Of settings in the environment nothing is said: they are for other jobs, too. */
static void
tell_unused(const struct options *options)
{
    static const char *const names[] = {"--job=", "--secret-file="};
    for (size_t i = 0; i < options->given.count; ++i) {
        for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); ++k) {
            if (strncmp(options->given.list[i], names[k], strlen(names[k])) == 0)
                message_line("%.*s has no effect: the ranks of this job do not connect at an address",
                             (int)strlen(names[k]) - 1, names[k]);
        }
    }
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
    if (job->options.verbose)
        tell_launched(launched);
    if (launched->by == LAUNCHED_ALONE && request.node_count == 0 && getenv("JOB_COMPLETION_INDEX") != NULL)
        message_line("JOB_COMPLETION_INDEX=%.20s, but --nnodes is not given: this pod trains alone; give --nnodes N "
                     "and --master HOST for one job of all pods, or --nnodes 1 for one job in each pod",
                     getenv("JOB_COMPLETION_INDEX"));
    if (launched->address[0] == '\0')
        tell_unused(&job->options);
    bool is_refused = job->options.program == NULL; /* its options are wrong; where to meet may stand in them */
    if (launched->by == LAUNCHED_ALONE || launched->is_host || (launched->address[0] != '\0' && is_refused))
        return true;
    int timeout_s = (int)job->options.timeout_s;
    const struct cluster_terms terms = {.secret_file = job->options.secret_file,
                                        .job = job->options.job_name,
                                        .timeout_s = timeout_s > 0 ? timeout_s : DDPRUN_DEFAULT_TIMEOUT_S};
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
    if (gethostname(handshake->host, sizeof(handshake->host) - 1) != 0 || handshake->host[0] == '\0')
        memcpy(handshake->host, "localhost", sizeof("localhost"));
    addresses_host_id(handshake->host_id);
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

static bool
read_handshakes(const struct cluster_blob *blobs, struct handshake *handshakes, int count, struct error *error)
{
    for (int i = 0; i < count; ++i) {
        if (!handshake_decode(blobs[i].bytes, blobs[i].count, &handshakes[i]))
            return error_set(error, DDPRUN_EXIT_USAGE,
                             "rank %d's ddprun is of another version; install the same on all hosts", i);
    }
    return true;
}

/* Every launcher reads all handshakes, so that all reach the same answer. False: the error; *common_p: all know it. */
static bool
exchange_handshakes(struct job *job, const char *key, const struct handshake *mine,
                    const struct cluster_idle_callback *idle, struct handshake *handshakes, bool *common_p,
                    struct error *error)
{
    int count = job->cluster.world_size, timeout_s = (int)job->options.timeout_s;
    unsigned char bytes[HANDSHAKE_BYTES_AT_MOST];
    struct cluster_blob *blobs = xcalloc((size_t)count, sizeof(*blobs));
    *common_p = cluster_exchange(&job->cluster, &job->signals, key, bytes, handshake_encode(mine, bytes),
                                 timeout_s > 0 ? timeout_s : DDPRUN_DEFAULT_TIMEOUT_S, idle, blobs, error);
    bool ok =
        *common_p && read_handshakes(blobs, handshakes, count, error) && handshake_agree(handshakes, count, error);
    for (int i = 0; i < count; ++i)
        free(blobs[i].bytes);
    free(blobs);
    return ok;
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

/* Accepts clients while they are waited for. */
struct listening {
    struct supervisor_server *server;
    struct rank_view *views; /* nothing is said of ranks yet */
};

static void
step_listener(void *data)
{
    struct listening *listening = data;
    (void)supervisor_server_step(listening->server, listening->views);
}

/* No launcher starts a rank before all know that all are connected. */
static bool
meet_connected(struct job *job, bool *common_p, struct error *error)
{
    struct handshake mine = {.pid = (int)getpid()};
    struct error own = {0};
    snprintf(mine.host, sizeof(mine.host), "%s", job->handshakes[job->cluster.rank].host);
    if (!connect_all(job, &own)) {
        mine.exit_code = own.exit_code;
        snprintf(mine.error, sizeof(mine.error), "%.1000s", own.text);
    }
    size_t count = (size_t)job->cluster.world_size;
    struct handshake *handshakes = xcalloc(count, sizeof(*handshakes));
    struct listening listening = {.server = job->server, .views = xcalloc(count, sizeof(*listening.views))};
    struct cluster_idle_callback idle = {.fd = -1, .step = step_listener, .data = &listening};
    if (job->server != NULL)
        idle.fd = supervisor_server_fd(job->server);
    bool ok = exchange_handshakes(job, "ddprun.connected", &mine, job->server != NULL ? &idle : NULL, handshakes,
                                  common_p, error);
    free(listening.views);
    free(handshakes);
    return ok;
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
    if (exchange_handshakes(job, "ddprun.supervisor", &mine, NULL, job->handshakes, &common, &error) &&
        compare_commands(job, &error) &&
        (job->cluster.member->make_secret == NULL || job->cluster.member->make_secret(job->handshakes[0].secret) ||
         error_set(&error, DDPRUN_EXIT_FAILURE, "libcrypto cannot make the job's secret")) &&
        meet_connected(job, &common, &error)) {
        job->cluster.member->end_fences();
        job->have_met = true;
        return true;
    }
    /* What all know is said by one; the others wait, for a launcher ends all at the first bad exit code. */
    if (common ? job->cluster.rank == 0 : job_speaks_for_host(job))
        message_line("%s", error.text);
    if (job->cluster.rank == 0 && !job->options.dry_run)
        summary_write_refused(job->options.summary_json, &error);
    if (common)
        cluster_wait_for_all(&job->cluster, &job->signals);
    *exit_code_p = error.exit_code;
    return false;
}
