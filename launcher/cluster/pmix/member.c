/*
 * member.c - this process as a member of a job by PMIx (launcher/cluster/member.h). PMIx 4 (pmix_common.h for the
 * keys). Alone in libddprun-pmix.so (library.h).
 *
 * One in a process, and one process at a time for each rank: PMIx takes two for one, and mixes their fences up. Not in
 * a forked child, where PMIx hangs. A fence that succeeds does not say that all have come: after a death PMIx lets the
 * others' fences succeed. After one that was given up no other may begin but to let the process end.
 *
 * Rules of this file: callbacks run on PMIx's thread, so they never wait, never call PMIx, and touch only atomics and
 * the pipe.
 */
#include "launcher/cluster/pmix/library.h"

#include "base/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <pmix.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

static pmix_proc_t self;
static int wake_pipe[2] = {-1, -1}; /* readable: a fence is over, or the launcher is gone */
static _Atomic bool server_gone;
static _Atomic bool fence_over;
static _Atomic int fence_status;

/* ---- on PMIx's thread ---- */

static void
wake(void)
{
    ssize_t ignored = write(wake_pipe[1], "x", 1);
    (void)ignored;
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

static void
fence_done(pmix_status_t status, void *data)
{
    (void)data;
    atomic_store(&fence_status, status);
    atomic_store(&fence_over, true);
    wake();
}

/* ---- joining ---- */

static bool
succeed_or_fail(pmix_status_t status, const char *what, struct error *error)
{
    return status == PMIX_SUCCESS ||
           error_set(error, DDPRUN_EXIT_FAILURE,
                     "%s: %s; is the launcher's PMIx (srun --mpi=pmix, mpirun) of another version than ddprun's?", what,
                     PMIx_Error_string(status));
}

/*
 * What ddprun was started with is passed on to the ranks (`ddprun ./train <(list)`); what it opens itself is closed on
 * execve by the flag it is opened with. Libraries do not all set it on what they open, at the lowest free numbers.
 */
enum { DESCRIPTORS = 1024 };

static void
list_descriptors(bool is_open[DESCRIPTORS])
{
    for (int fd = 0; fd < DESCRIPTORS; ++fd)
        is_open[fd] = fcntl(fd, F_GETFD) >= 0;
}

static void
keep_new_descriptors(const bool was_open[DESCRIPTORS])
{
    for (int fd = 0; fd < DESCRIPTORS; ++fd) {
        if (!was_open[fd])
            (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
}

/* The connection to the launcher is ours, not the trainer's; and so are the threads' signals, of which they block all:
 * threads inherit their creator's mask. */
static pmix_status_t
initialise(void)
{
    sigset_t all, before;
    bool was_open[DESCRIPTORS];
    list_descriptors(was_open);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pmix_status_t status = PMIx_Init(&self, NULL, 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    keep_new_descriptors(was_open);
    return status;
}

/* What PMIx_Get() has made, of the types that are asked for here: PMIx before 4.2 has no function that does so. */
static void
release(pmix_value_t *value)
{
    if (value->type == PMIX_BYTE_OBJECT)
        free(value->data.bo.bytes);
    free(value);
}

/* A number that the server has for the whole job (`rank` = wildcard) or for one rank; -1: none. */
static int
get_number(pmix_rank_t rank, const char *key)
{
    pmix_proc_t of;
    PMIX_LOAD_PROCID(&of, self.nspace, rank);
    pmix_value_t *value = NULL;
    if (PMIx_Get(&of, key, NULL, 0, &value) != PMIX_SUCCESS || value == NULL)
        return -1;

    int number = value->type == PMIX_UINT16   ? value->data.uint16 /* servers differ */
                 : value->type == PMIX_UINT32 ? (int)value->data.uint32
                 : value->type == PMIX_INT    ? value->data.integer
                                              : -1;
    release(value);
    return number;
}

static bool
find_place(struct cluster_place *place, struct error *error)
{
    *place = (struct cluster_place){
        .rank = (int)self.rank,
        .world_size = get_number(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE),
        .local_rank = get_number(self.rank, PMIX_LOCAL_RANK),
        .local_size = get_number(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE),
    };
    return (place->world_size >= 1 && self.rank < (unsigned)place->world_size && place->local_rank >= 0 &&
            place->local_size > 0) ||
           error_set(error, DDPRUN_EXIT_FAILURE,
                     "the launcher's PMIx does not say how many ranks there are, or on this host "
                     "(PMIX_JOB_SIZE, PMIX_LOCAL_SIZE, PMIX_LOCAL_RANK); a second ddprun in the same task needs its "
                     "own job step: call srun or mpirun again");
}

static bool
member_join(const struct launched *launched, const struct cluster_terms *terms, struct cluster_place *place_p,
            struct error *error)
{
    (void)launched, (void)terms; /* the environment says more to PMIx */
    if (pipe2(wake_pipe, O_CLOEXEC | O_NONBLOCK) != 0)
        return error_set(error, DDPRUN_EXIT_FAILURE, "cannot make a pipe: %s; raise the limit of open files",
                         strerror(errno));
    if (!succeed_or_fail(initialise(), "cannot join the launcher's job by PMIx", error))
        return false;

    /* Explicit codes: a handler for everything is never called in PMIx 4. Without it only the server's own means of
     * ending this process are left, so what registering it returns changes nothing. */
    pmix_status_t code = PMIX_ERR_LOST_CONNECTION;
    PMIx_Register_event_handler(&code, 1, NULL, 0, connection_lost, NULL, NULL);
    return find_place(place_p, error);
}

/* Whether the server has gone without ending this process: PMIx notices about a second later. */
static bool
member_launcher_is_gone(void)
{
    return atomic_load(&server_gone);
}

static int
member_launcher_fd(void)
{
    return wake_pipe[0];
}

/* ---- the exchange ---- */

/* PMIx keeps what it was given. */
static bool
member_publish(const char *key, const void *bytes, size_t count, struct error *error)
{
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT};
    value.data.bo.bytes = (char *)(uintptr_t)bytes; /* PMIx copies them */
    value.data.bo.size = count;
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key, &value);
    if (status == PMIX_SUCCESS)
        status = PMIx_Commit();
    return succeed_or_fail(status, "cannot publish this rank's address by PMIx", error);
}

static const char fence_failed[] = "the ranks' first exchange by PMIx failed";

static bool
member_fence_begin(struct error *error)
{
    static const pmix_info_t info = {.key = PMIX_COLLECT_DATA, .value = {.type = PMIX_BOOL, .data.flag = true}};
    static pmix_proc_t everyone; /* both: PMIx may read them until the fence is over */
    atomic_store(&fence_over, false);
    PMIX_LOAD_PROCID(&everyone, self.nspace, PMIX_RANK_WILDCARD);
    pmix_status_t status = PMIx_Fence_nb(&everyone, 1, &info, 1, fence_done, NULL);
    if (status != PMIX_OPERATION_SUCCEEDED)
        return succeed_or_fail(status, fence_failed, error);
    atomic_store(&fence_status, PMIX_SUCCESS); /* then PMIx does not call back */
    atomic_store(&fence_over, true);
    return true;
}

static int
member_fence_poll(struct pollfd polled[MEMBER_FDS])
{
    polled[0] = (struct pollfd){.fd = wake_pipe[0], .events = POLLIN};
    return 1;
}

static bool
member_fence_step(bool *is_over_p, struct error *error)
{
    char bytes[64];
    while (read(wake_pipe[0], bytes, sizeof(bytes)) > 0) {
    }
    *is_over_p = atomic_load(&fence_over);
    if (*is_over_p)
        return succeed_or_fail(atomic_load(&fence_status), fence_failed, error);
    return !member_launcher_is_gone() ||
           error_set(error, DDPRUN_EXIT_FAILURE, "the launcher that started ddprun is gone");
}

static bool
member_fence_describe(char *text, size_t bytes)
{
    snprintf(text, bytes, "the other ranks");
    return true;
}

/* Waits for it if it was not published before the last fence, as long as PMIx does. */
static bool
member_fetch(const char *key, int rank, struct cluster_blob *blob, struct error *error)
{
    pmix_proc_t of;
    PMIX_LOAD_PROCID(&of, self.nspace, (pmix_rank_t)rank);
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&of, key, NULL, 0, &value);
    if (status != PMIX_SUCCESS || value == NULL)
        return error_set(error, DDPRUN_EXIT_FAILURE,
                         "rank %d has left before the ranks' first exchange (%s); its output may say why", rank,
                         PMIx_Error_string(status));
    if (value->type != PMIX_BYTE_OBJECT) {
        release(value);
        return error_set(error, DDPRUN_EXIT_FAILURE,
                         "rank %d published something else than ddprun does; is it the same ddprun?", rank);
    }
    *blob = (struct cluster_blob){calloc(1, value->data.bo.size + 1), value->data.bo.size};
    if (blob->bytes != NULL)
        memcpy(blob->bytes, value->data.bo.bytes, blob->count);
    release(value);
    return blob->bytes != NULL || error_set(error, DDPRUN_EXIT_FAILURE, "out of memory; free some and start again");
}

static void
member_end_fences(void)
{
}

/* Leaves cleanly, which makes this process's end a good one for the server. May wait for a server that does not
 * answer. */
static void
member_leave(void)
{
    if (!member_launcher_is_gone())
        (void)PMIx_Finalize(NULL, 0);
    close(wake_pipe[0]);
    close(wake_pipe[1]);
}

__attribute__((visibility("default"))) extern const struct pmix_library ddprun_pmix_member;

const struct pmix_library ddprun_pmix_member = {
    .protocol = DDPRUN_PROTOCOL_VERSION,
    .version = PMIx_Get_version,
    .member = {.join = member_join,
               .publish = member_publish,
               .fence_begin = member_fence_begin,
               .fence_poll = member_fence_poll,
               .fence_step = member_fence_step,
               .fence_describe = member_fence_describe,
               .fetch = member_fetch,
               .end_fences = member_end_fences,
               .leave = member_leave,
               .launcher_fd = member_launcher_fd,
               .launcher_is_gone = member_launcher_is_gone},
};
