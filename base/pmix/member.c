/*
 * member.c - see member.h. PMIx 4 (pmix_common.h for the keys).
 *
 * Rules of this file: callbacks run on PMIx's thread, so they never wait, never call PMIx, and touch only atomics.
 */
#include "base/pmix/member.h"

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
static void (*wake_caller)(void); /* set before PMIx has a thread */
static _Atomic bool server_gone;
static _Atomic bool fence_over;
static _Atomic int fence_status;

/* ---- words ---- */

/* Always false, so that a caller can return it. */
static bool
fail(struct member_failure *failure, enum member_reason reason, pmix_status_t status)
{
    *failure = (struct member_failure){.reason = reason, .words = PMIx_Error_string(status)};
    return false;
}

static bool
succeed_or_fail(struct member_failure *failure, pmix_status_t status)
{
    return status == PMIX_SUCCESS || fail(failure, status == PMIX_ERR_TIMEOUT ? MEMBER_LATE : MEMBER_REFUSED, status);
}

/* ---- joining ---- */

static void
wake(void)
{
    if (wake_caller != NULL)
        wake_caller();
}

static void
connection_lost(size_t registration, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *info,
                size_t info_count, pmix_info_t *results, size_t result_count, pmix_event_notification_cbfunc_fn_t done,
                void *done_data)
{
    (void)registration, (void)status, (void)source, (void)info, (void)info_count, (void)results, (void)result_count;
    atomic_store(&server_gone, true);
    wake();
    if (done != NULL)
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, done_data);
}

bool
member_server_is_gone(void)
{
    return atomic_load(&server_gone);
}

static bool
leads_to(int fd, const struct sockaddr_in *server)
{
    struct sockaddr_in peer = {.sin_family = AF_UNSPEC};
    socklen_t length = sizeof(peer);
    return getpeername(fd, (struct sockaddr *)&peer, &length) == 0 && length == sizeof(peer) &&
           peer.sin_family == AF_INET && peer.sin_port == server->sin_port &&
           peer.sin_addr.s_addr == server->sin_addr.s_addr;
}

/* Where the server is, as it says in the environment: "NAME.0;tcp4://127.0.0.1:59507". */
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
 * PMIx 4 leaves its socket open for every program that this process starts, which would keep the connection alive when
 * this process is gone. By its other end it cannot be mistaken for a descriptor that another thread makes at the same
 * time.
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

bool
member_join(void (*wake_p)(void), struct member_failure *failure)
{
    wake_caller = wake_p;
    sigset_t all, before; /* threads inherit their creator's mask */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pmix_status_t status = PMIx_Init(&self, NULL, 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status != PMIX_SUCCESS)
        return fail(failure, MEMBER_REFUSED, status);
    keep_from_programs();

    /* Explicit codes: a handler for everything is never called in PMIx 4. Without it only the server's own means of
     * ending this process are left, so what registering it returns changes nothing. */
    pmix_status_t code = PMIX_ERR_LOST_CONNECTION;
    PMIx_Register_event_handler(&code, 1, NULL, 0, connection_lost, NULL, NULL);
    return true;
}

void
member_leave(void)
{
    (void)PMIx_Finalize(NULL, 0);
}

void
member_abort(int status, const char *message)
{
    enum { MEMORY_OF_AN_ABORT = 1 << 16 }; /* a few messages and lists; without it PMIx 4 uses a null pointer */
    void *memory = malloc(MEMORY_OF_AN_ABORT);
    free(memory);
    if (memory == NULL)
        return;
    (void)PMIx_Abort(status, message, NULL, 0);
}

/* ---- the place ---- */

/* A number that the server has for the whole job (`rank` = wildcard) or for one rank; -1: none. */
static int
get_number(pmix_rank_t rank, const char *key)
{
    pmix_proc_t of;
    PMIX_LOAD_PROCID(&of, self.nspace, rank);
    pmix_value_t *value = NULL;
    if (PMIx_Get(&of, key, NULL, 0, &value) != PMIX_SUCCESS || value == NULL)
        return -1;

    int number = -1;
    switch (value->type) { /* servers differ */
    case PMIX_UINT16:
        number = value->data.uint16;
        break;
    case PMIX_UINT32:
        number = (int)value->data.uint32;
        break;
    case PMIX_INT:
        number = value->data.integer;
        break;
    default:
        break;
    }
    PMIX_VALUE_RELEASE(value);
    return number;
}

struct member_place
member_place(void)
{
    int world_size = get_number(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
    bool possible = world_size >= 1 && self.rank < (unsigned)world_size;
    return (struct member_place){
        .rank = (int)self.rank,
        .world_size = possible ? world_size : -1,
        .local_rank = get_number(self.rank, PMIX_LOCAL_RANK),
        .local_size = get_number(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE),
    };
}

/* ---- the exchange ---- */

bool
member_publish(const char *key, const void *bytes, size_t count, struct member_failure *failure)
{
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT};
    value.data.bo.bytes = (char *)(uintptr_t)bytes; /* PMIx copies them */
    value.data.bo.size = count;
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key, &value);
    if (status == PMIX_SUCCESS)
        status = PMIx_Commit();
    return succeed_or_fail(failure, status);
}

bool
member_fence(int timeout_s, struct member_failure *failure)
{
    bool collect = true;
    pmix_proc_t everyone;
    pmix_info_t info[2];
    PMIX_LOAD_PROCID(&everyone, self.nspace, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&info[0], PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &timeout_s, PMIX_INT);
    pmix_status_t status = PMIx_Fence(&everyone, 1, info, 2);
    PMIX_INFO_DESTRUCT(&info[0]);
    PMIX_INFO_DESTRUCT(&info[1]);
    return succeed_or_fail(failure, status);
}

static void
fence_done(pmix_status_t status, void *data)
{
    (void)data;
    atomic_store(&fence_status, status);
    atomic_store(&fence_over, true);
    wake();
}

bool
member_fence_begin(struct member_failure *failure)
{
    static bool collect = true; /* these three: PMIx may read them until the fence is over */
    static pmix_info_t info;
    static pmix_proc_t everyone;
    atomic_store(&fence_over, false);
    PMIX_LOAD_PROCID(&everyone, self.nspace, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    pmix_status_t status = PMIx_Fence_nb(&everyone, 1, &info, 1, fence_done, NULL);
    if (status != PMIX_OPERATION_SUCCEEDED)
        return succeed_or_fail(failure, status);
    atomic_store(&fence_status, PMIX_SUCCESS); /* then PMIx does not call back */
    atomic_store(&fence_over, true);
    return true;
}

bool
member_fence_is_over(void)
{
    return atomic_load(&fence_over);
}

bool
member_fence_end(struct member_failure *failure)
{
    return succeed_or_fail(failure, atomic_load(&fence_status));
}

bool
member_fetch(int rank, const char *key, struct member_bytes *bytes_p, struct member_failure *failure)
{
    pmix_proc_t of;
    PMIX_LOAD_PROCID(&of, self.nspace, (pmix_rank_t)rank);
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&of, key, NULL, 0, &value);
    if (status != PMIX_SUCCESS || value == NULL)
        return fail(failure, MEMBER_REFUSED, status);
    if (value->type != PMIX_BYTE_OBJECT) {
        PMIX_VALUE_RELEASE(value);
        return fail(failure, MEMBER_NO_BYTES, PMIX_ERR_TYPE_MISMATCH);
    }
    *bytes_p = (struct member_bytes){.bytes = value->data.bo.bytes, .count = value->data.bo.size, .value = value};
    return true;
}

void
member_release(struct member_bytes *bytes)
{
    pmix_value_t *value = bytes->value;
    PMIX_VALUE_RELEASE(value);
    *bytes = (struct member_bytes){.bytes = NULL};
}
