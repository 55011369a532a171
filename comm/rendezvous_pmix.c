/*
 * rendezvous_pmix.c - the rendezvous on one node: a client of the launcher's PMIx server. PMIx 4 (pmix_common.h for the
 * keys).
 */
#include "comm/rendezvous_folder.h"
#include "comm/rendezvous_way.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pmix.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static pmix_proc_t self;

static _Atomic bool launcher_gone;

/* Threads inherit their creator's signal mask: PMIx's progress threads must not take the trainer's signals. */
static pmix_status_t
init_with_signals_blocked(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pmix_status_t status = PMIx_Init(&self, NULL, 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

static bool
leads_to(int fd, const struct sockaddr_in *server)
{
    struct sockaddr_in peer;
    socklen_t length = sizeof(peer);
    return getpeername(fd, (struct sockaddr *)&peer, &length) == 0 && length == sizeof(peer) &&
           peer.sin_family == AF_INET && peer.sin_port == server->sin_port &&
           peer.sin_addr.s_addr == server->sin_addr.s_addr;
}

/* Where the launcher's server is, as it says in the environment: "NAME.0;tcp4://127.0.0.1:59507". */
static bool
find_server(struct sockaddr_in *server_p)
{
    const char *text = getenv("PMIX_SERVER_URI41");
    const char *at = text != NULL ? strstr(text, ";tcp4://") : NULL;
    char host[INET_ADDRSTRLEN];
    unsigned short port;
    struct sockaddr_in server = {.sin_family = AF_INET};
    if (at == NULL || sscanf(at, ";tcp4://%15[0-9.]:%hu", host, &port) != 2 ||
        inet_pton(AF_INET, host, &server.sin_addr) != 1)
        return false;
    server.sin_port = htons(port);
    *server_p = server;
    return true;
}

/*
 * PMIx 4 leaves its socket open for every program that the trainer starts, which would keep the connection alive when
 * the trainer is gone. By its other end it cannot be mistaken for a descriptor of the trainer's, which another thread
 * may make at the same time.
 */
static void
keep_from_programs(void)
{
    struct sockaddr_in server;
    DIR *open_files = find_server(&server) ? opendir("/proc/self/fd") : NULL;
    if (open_files == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(open_files)) != NULL;) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] != '.' && leads_to(fd, &server))
            (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    closedir(open_files);
}

/* On PMIx's thread: must not wait, nor call PMIx. */
static void
connection_lost(size_t registration, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *info,
                size_t info_count, pmix_info_t *results, size_t result_count, pmix_event_notification_cbfunc_fn_t done,
                void *done_data)
{
    (void)registration, (void)status, (void)source, (void)info, (void)info_count, (void)results, (void)result_count;
    atomic_store(&launcher_gone, true);
    if (done != NULL)
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, done_data);
}

/* Explicit codes: a handler for everything is never called in PMIx 4. Without the handler only the launcher's own means
 * are left. */
static void
watch_connection(void)
{
    pmix_status_t code = PMIX_ERR_LOST_CONNECTION;
    PMIx_Register_event_handler(&code, 1, NULL, 0, connection_lost, NULL, NULL);
}

static bool
is_launcher_gone(void)
{
    return atomic_load(&launcher_gone);
}

/* A number that the server has for the whole job (`rank` = wildcard) or for one rank. */
static bool
get_number(pmix_rank_t rank, const char *key, int *number_p)
{
    pmix_proc_t of;
    PMIX_LOAD_PROCID(&of, self.nspace, rank);
    pmix_value_t *value = NULL;
    if (PMIx_Get(&of, key, NULL, 0, &value) != PMIX_SUCCESS || value == NULL)
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
open_pmix(struct rendezvous *rendezvous, struct comm_error *error)
{
    pmix_status_t status = init_with_signals_blocked();
    if (status != PMIX_SUCCESS)
        return comm_fail(error, "PMIx_Init: %s; was the program started by ddprun, srun --mpi=pmix or mpirun?",
                         PMIx_Error_string(status));

    keep_from_programs();
    int size = 0, local = 0;
    if (!get_number(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, &size) || size < 1 || self.rank >= (unsigned)size) {
        PMIx_Finalize(NULL, 0);
        return comm_fail(error, "the PMIx server does not know the size of the job");
    }
    if (!get_number(self.rank, PMIX_LOCAL_RANK, &local)) {
        PMIx_Finalize(NULL, 0);
        return comm_fail(error, "the PMIx server does not know this rank's local rank");
    }
    watch_connection();
    *rendezvous = (struct rendezvous){
        .rank = (int)self.rank, .world_size = size, .local_rank = local, .open = true, .way = &rendezvous_pmix};
    return true;
}

static bool
publish(const char *key, const void *bytes, size_t count, struct comm_error *error)
{
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT};
    value.data.bo.bytes = (char *)(uintptr_t)bytes;
    value.data.bo.size = count;
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key, &value);
    if (status != PMIX_SUCCESS)
        return comm_fail(error, "PMIx_Put: %s", PMIx_Error_string(status));
    return true;
}

static bool
fence(int timeout_s, struct comm_error *error)
{
    pmix_status_t status = PMIx_Commit();
    if (status != PMIX_SUCCESS)
        return comm_fail(error, "PMIx_Commit: %s", PMIx_Error_string(status));

    pmix_proc_t everyone;
    PMIX_LOAD_PROCID(&everyone, self.nspace, PMIX_RANK_WILDCARD);
    bool collect = true;
    pmix_info_t info[2];
    PMIX_INFO_LOAD(&info[0], PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &timeout_s, PMIX_INT);
    status = PMIx_Fence(&everyone, 1, info, 2);
    PMIX_INFO_DESTRUCT(&info[0]);
    PMIX_INFO_DESTRUCT(&info[1]);
    if (status == PMIX_ERR_TIMEOUT)
        return comm_fail_by(error, COMM_OTHERS, "other ranks have not come within %d s", timeout_s);
    if (status != PMIX_SUCCESS)
        return comm_fail(error, "PMIx_Fence: %s", PMIx_Error_string(status));
    return true;
}

static bool
share(struct rendezvous *rendezvous, const char *key, const void *mine, void *out, size_t bytes, int timeout_s,
      struct comm_error *error)
{
    if (rendezvous->generation > 0)
        return rendezvous_folder_share(rendezvous, key, mine, out, bytes, timeout_s, error);
    if (mine != NULL && !publish(key, mine, bytes, error))
        return false;
    if (!fence(timeout_s, error))
        return false;

    pmix_proc_t root;
    PMIX_LOAD_PROCID(&root, self.nspace, 0);
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&root, key, NULL, 0, &value);
    if (status != PMIX_SUCCESS || value == NULL)
        return comm_fail(error, "rank 0 has not published \"%s\": %s", key, PMIx_Error_string(status));

    bool fits = value->type == PMIX_BYTE_OBJECT && value->data.bo.size == bytes;
    if (fits)
        memcpy(out, value->data.bo.bytes, bytes);
    PMIX_VALUE_RELEASE(value);
    return fits || comm_fail(error, "rank 0 published \"%s\" in another form; are all ranks the same ddprun?", key);
}

static void
ask_for_abort(struct rendezvous *rendezvous, int status, const char *message)
{
    (void)rendezvous;
    (void)PMIx_Abort(status, message, NULL, 0);
}

static void
leave(struct rendezvous *rendezvous)
{
    (void)rendezvous;
    (void)PMIx_Finalize(NULL, 0);
}

const struct rendezvous_way rendezvous_pmix = {
    .open = open_pmix,
    .share = share,
    .abort = ask_for_abort,
    .launcher_is_gone = is_launcher_gone,
    .close = leave,
};
