/*
 * pmix_server.c - see pmix_server.h.
 *
 * Rules of this file: callbacks run on PMIx's thread, so they never wait, never call PMIx, and touch only atomics and
 * the pipe. Every wait for PMIx has a limit: a progress thread that hangs must not take the launcher with it.
 */
#include "launcher/start/pmix_server.h"

#include "base/protocol.h"
#include "launcher/common/xcalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pmix.h>
#include <pmix_server.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_LIMIT_S = 20, JOB_INFO_COUNT = 11, RANK_INFO_COUNT = 7 };

struct pmix_server {
    int rank_count;
    int pipe[2]; /* struct pmix_server_abort, each in one write */
    pmix_nspace_t job;
    char host[HOST_NAME_MAX + 1];
    struct pmix_client {
        struct pmix_server *server;
        _Atomic int connected;
        _Atomic int finalized;
    } * clients; /* [rank_count]; PMIx hands each back as "server object" */
};

_Static_assert(sizeof(struct pmix_server_abort) <= PIPE_BUF, "an abort is written to the pipe as a whole");

/* ---- waiting for an answer ---- */

/* Shared with PMIx's thread, and left to it (leaked) if the answer does not come in time. */
struct answer {
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t arrived;
    bool done;
    pmix_status_t status;
};

static struct answer *
answer_new(void)
{
    struct answer *answer = xcalloc(1, sizeof(*answer));
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&answer->lock, NULL);
    pthread_cond_init(&answer->arrived, &attributes);
    pthread_condattr_destroy(&attributes);
    return answer;
}

static void
answer_arrives(pmix_status_t status, void *data)
{
    struct answer *answer = data;
    pthread_mutex_lock(&answer->lock);
    answer->status = status;
    answer->done = true;
    pthread_cond_signal(&answer->arrived);
    pthread_mutex_unlock(&answer->lock);
}

static void
answer_free(struct answer *answer)
{
    pthread_cond_destroy(&answer->arrived);
    pthread_mutex_destroy(&answer->lock);
    free(answer);
}

/* The outcome of a call that returned `accepted` and, if that is PMIX_SUCCESS, answers later. */
static pmix_status_t
answer_wait(struct answer *answer, pmix_status_t accepted)
{
    if (accepted != PMIX_SUCCESS) {
        answer_free(answer);
        return accepted == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : accepted;
    }
    struct timespec limit;
    clock_gettime(CLOCK_MONOTONIC, &limit);
    limit.tv_sec += ANSWER_LIMIT_S;

    pthread_mutex_lock(&answer->lock);
    int late = 0;
    while (!answer->done && late == 0)
        late = pthread_cond_timedwait(&answer->arrived, &answer->lock, &limit);
    bool done = answer->done;
    pmix_status_t status = answer->status;
    pthread_mutex_unlock(&answer->lock);
    if (!done)
        return PMIX_ERR_TIMEOUT;
    answer_free(answer);
    return status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status;
}

static bool
refused(struct error *error, const char *what, pmix_status_t status)
{
    return error_set(error, DDPRUN_EXIT_FAILURE,
                     "PMIx failed in the launcher: %s: %s; check the installation of libpmix", what,
                     PMIx_Error_string(status));
}

/* ---- callbacks ---- */

static pmix_status_t
on_connected(const pmix_proc_t *proc, void *server_object, pmix_info_t info[], size_t info_count,
             pmix_op_cbfunc_t answer, void *data)
{
    (void)proc, (void)info, (void)info_count, (void)answer, (void)data;
    struct pmix_client *client = server_object;
    if (client != NULL)
        atomic_fetch_add(&client->connected, 1);
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t
on_finalized(const pmix_proc_t *proc, void *server_object, pmix_op_cbfunc_t answer, void *data)
{
    (void)proc, (void)answer, (void)data;
    struct pmix_client *client = server_object;
    if (client != NULL)
        atomic_fetch_add(&client->finalized, 1);
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t
on_abort(const pmix_proc_t *proc, void *server_object, int status, const char message[], pmix_proc_t procs[],
         size_t count, pmix_op_cbfunc_t answer, void *data)
{
    (void)procs, (void)count;
    struct pmix_client *client = server_object;
    struct pmix_server_abort event = {.rank = (int)proc->rank, .status = status};
    snprintf(event.message, sizeof(event.message), "%s", message != NULL ? message : "");
    if (client != NULL) {
        /* A full pipe already holds more than enough reasons to end the job. */
        ssize_t ignored = write(client->server->pipe[1], &event, sizeof(event));
        (void)ignored;
    }
    if (answer != NULL)
        answer(PMIX_SUCCESS, data);
    return PMIX_SUCCESS;
}

/* Called for a fence in which a rank that is gone took part; the data is ours from here on. */
static pmix_status_t
on_fence(const pmix_proc_t procs[], size_t count, const pmix_info_t info[], size_t info_count, char *bytes,
         size_t byte_count, pmix_modex_cbfunc_t answer, void *data)
{
    (void)procs, (void)count, (void)info, (void)info_count;
    if (answer != NULL)
        answer(PMIX_SUCCESS, bytes, byte_count, data, free, bytes);
    else
        free(bytes);
    return PMIX_SUCCESS;
}

static pmix_server_module_t module = {
    .client_connected2 = on_connected,
    .client_finalized = on_finalized,
    .abort = on_abort,
    .fence_nb = on_fence,
};

/* ---- registration ---- */

static void
load_number(pmix_info_t *info, const char *key, uint32_t number)
{
    PMIX_INFO_LOAD(info, key, &number, PMIX_UINT32);
}

/* Everything about one rank. PMIX_RANK must be the first entry. */
static void
load_rank(pmix_info_t *info, struct pmix_server *server, int rank)
{
    pmix_rank_t number = (pmix_rank_t)rank;
    uint16_t local = (uint16_t)rank;
    pmix_info_t *entries;
    PMIX_INFO_CREATE(entries, RANK_INFO_COUNT);
    PMIX_INFO_LOAD(&entries[0], PMIX_RANK, &number, PMIX_PROC_RANK);
    PMIX_INFO_LOAD(&entries[1], PMIX_LOCAL_RANK, &local, PMIX_UINT16);
    PMIX_INFO_LOAD(&entries[2], PMIX_NODE_RANK, &local, PMIX_UINT16);
    PMIX_INFO_LOAD(&entries[3], PMIX_GLOBAL_RANK, &number, PMIX_PROC_RANK);
    load_number(&entries[4], PMIX_APPNUM, 0);
    load_number(&entries[5], PMIX_NODEID, 0);
    PMIX_INFO_LOAD(&entries[6], PMIX_HOSTNAME, server->host, PMIX_STRING);

    pmix_data_array_t array = {.type = PMIX_INFO, .size = RANK_INFO_COUNT, .array = entries};
    PMIX_INFO_LOAD(info, PMIX_PROC_INFO_ARRAY, &array, PMIX_DATA_ARRAY); /* copies */
    PMIX_INFO_FREE(entries, RANK_INFO_COUNT);
}

/* "0,1,2,3" */
static char *
rank_list(int rank_count)
{
    char *list = xcalloc((size_t)rank_count, 12);
    size_t used = 0;
    for (int rank = 0; rank < rank_count; ++rank)
        used += (size_t)sprintf(list + used, "%s%d", rank > 0 ? "," : "", rank);
    return list;
}

static bool
register_job(struct pmix_server *server, struct error *error)
{
    uint32_t count = (uint32_t)server->rank_count;
    char *ranks = rank_list(server->rank_count);
    char *nodes = NULL, *places = NULL;
    pmix_status_t status = PMIx_generate_regex(server->host, &nodes);
    if (status == PMIX_SUCCESS)
        status = PMIx_generate_ppn(ranks, &places);
    if (status != PMIX_SUCCESS) {
        free(ranks);
        free(nodes);
        return refused(error, "describing the node", status);
    }

    size_t info_count = JOB_INFO_COUNT + count;
    pmix_info_t *info;
    PMIX_INFO_CREATE(info, info_count);
    load_number(&info[0], PMIX_UNIV_SIZE, count);
    load_number(&info[1], PMIX_JOB_SIZE, count);
    load_number(&info[2], PMIX_LOCAL_SIZE, count);
    load_number(&info[3], PMIX_NODE_SIZE, count);
    load_number(&info[4], PMIX_MAX_PROCS, count);
    load_number(&info[5], PMIX_NUM_NODES, 1);
    load_number(&info[6], PMIX_JOB_NUM_APPS, 1);
    PMIX_INFO_LOAD(&info[7], PMIX_JOBID, server->job, PMIX_STRING);
    PMIX_INFO_LOAD(&info[8], PMIX_LOCAL_PEERS, ranks, PMIX_STRING);
    PMIX_INFO_LOAD(&info[9], PMIX_NODE_MAP, nodes, PMIX_REGEX); /* as PMIX_STRING they are not understood */
    PMIX_INFO_LOAD(&info[10], PMIX_PROC_MAP, places, PMIX_REGEX);
    for (int rank = 0; rank < server->rank_count; ++rank)
        load_rank(&info[JOB_INFO_COUNT + rank], server, rank);

    struct answer *answer = answer_new();
    status = answer_wait(
        answer, PMIx_server_register_nspace(server->job, server->rank_count, info, info_count, answer_arrives, answer));
    if (status != PMIX_ERR_TIMEOUT)
        PMIX_INFO_FREE(info, info_count); /* after a time-out PMIx may still read it */
    free(ranks);
    free(nodes);
    free(places);
    return status == PMIX_SUCCESS || refused(error, "registering the job", status);
}

static pmix_status_t
init_library(const char *folder, const char *own_name)
{
    pmix_info_t info[5];
    pmix_rank_t own_rank = 0;
    bool tools = false;
    PMIX_INFO_LOAD(&info[0], PMIX_SERVER_TMPDIR, folder, PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_SYSTEM_TMPDIR, folder, PMIX_STRING);
    PMIX_INFO_LOAD(&info[2], PMIX_SERVER_NSPACE, own_name, PMIX_STRING);
    PMIX_INFO_LOAD(&info[3], PMIX_SERVER_RANK, &own_rank, PMIX_PROC_RANK);
    PMIX_INFO_LOAD(&info[4], PMIX_SERVER_TOOL_SUPPORT, &tools, PMIX_BOOL);
    pmix_status_t status = PMIx_server_init(&module, info, 5);
    for (int i = 0; i < 5; ++i)
        PMIX_INFO_DESTRUCT(&info[i]);
    return status;
}

/* Settings for PMIx and the libraries beneath it. */
static const char *const own_variables[][2] = {
    /* The shared-memory store of PMIx 4 leaves a mutex locked when a client's request fails, and hangs for ever. */
    {"PMIX_MCA_gds", "hash"},
    /*
     * PMIx looks at the machine by hwloc, and no caller asks it for more than processors. Plug-ins would knock at X
     * displays, over the network too, and start the drivers of all GPUs; the component for x86 visits each processor
     * in turn, and waits until it is free; each device of a bus takes a millisecond in a virtual machine (hwloc's
     * manual, "Components and plugins").
     */
    {"HWLOC_PLUGINS_PATH", "/nonexistent"},
    {"HWLOC_COMPONENTS", "-x86,-pci,-linux:pci,-linux:io,-gl,-opencl,-cuda,-nvml,-rsmi,-levelzero"},
};

/* Neither a rank inherits them nor a ddprun that starts anew in this process: their environments are copied before. */
static void
set_environment(void)
{
    for (size_t i = 0; i < sizeof(own_variables) / sizeof(own_variables[0]); ++i)
        setenv(own_variables[i][0], own_variables[i][1], 1);
}

static struct pmix_server *
server_new(int rank_count)
{
    struct pmix_server *server = xcalloc(1, sizeof(*server));
    server->rank_count = rank_count;
    if (pipe2(server->pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
        free(server);
        return NULL;
    }
    snprintf(server->job, sizeof(server->job), "ddprun-%d", (int)getpid());
    if (gethostname(server->host, sizeof(server->host)) != 0 || server->host[0] == '\0')
        snprintf(server->host, sizeof(server->host), "localhost");
    server->host[HOST_NAME_MAX] = '\0';
    server->clients = xcalloc((size_t)rank_count, sizeof(*server->clients));
    for (int rank = 0; rank < rank_count; ++rank)
        server->clients[rank].server = server;
    return server;
}

/* All before any is started: a rank that is stopped while it connects holds up the server's thread. */
static bool
register_ranks(struct pmix_server *server, int rank_count, struct error *error)
{
    for (int rank = 0; rank < rank_count; ++rank) {
        pmix_proc_t proc;
        PMIX_LOAD_PROCID(&proc, server->job, (pmix_rank_t)rank);
        struct answer *answer = answer_new();
        pmix_status_t status =
            answer_wait(answer, PMIx_server_register_client(&proc, geteuid(), getegid(), &server->clients[rank],
                                                            answer_arrives, answer));
        if (status != PMIX_SUCCESS)
            return refused(error, "registering a rank", status);
    }
    return true;
}

bool
pmix_server_start(const char *folder, int rank_count, struct pmix_server **server_p, struct error *error)
{
    struct pmix_server *server = server_new(rank_count);
    if (server == NULL)
        return error_set(error, DDPRUN_EXIT_FAILURE, "cannot make a pipe: %s; raise the limit of open files",
                         strerror(errno));

    set_environment();
    char own_name[64];
    snprintf(own_name, sizeof(own_name), "ddprun-server-%d", (int)getpid());
    pmix_status_t status = init_library(folder, own_name);
    *server_p = server; /* PMIx may have begun, and refer to it */
    if (status != PMIX_SUCCESS)
        return refused(error, "starting the server", status);
    return register_job(server, error) && register_ranks(server, rank_count, error);
}

bool
pmix_server_add_environment(struct pmix_server *server, int rank, char ***list, struct error *error)
{
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, server->job, (pmix_rank_t)rank);
    pmix_status_t status = PMIx_server_setup_fork(&proc, list);
    return status == PMIX_SUCCESS || refused(error, "making a rank's environment", status);
}

int
pmix_server_fd(const struct pmix_server *server)
{
    return server->pipe[0];
}

bool
pmix_server_next_abort(struct pmix_server *server, struct pmix_server_abort *abort)
{
    return read(server->pipe[0], abort, sizeof(*abort)) == (ssize_t)sizeof(*abort);
}

bool
pmix_server_is_connected(const struct pmix_server *server, int rank)
{
    const struct pmix_client *client = &server->clients[rank];
    return atomic_load(&client->connected) > atomic_load(&client->finalized);
}
