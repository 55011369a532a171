/*
 * member.c - see member.h. PMIx 4 (pmix_common.h for the keys). Alone in libddprun-pmix.so.
 *
 * Rules of this file: callbacks run on PMIx's thread, so they never wait, never call PMIx, and touch only atomics.
 */
#include "launcher/cluster/pmix/member.h"

#include "base/protocol.h"

#include <pmix.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

static pmix_proc_t self;
static void (*wake_caller)(void); /* set before PMIx has a thread */
static _Atomic bool server_gone;
static _Atomic bool fence_over;
static _Atomic int fence_status;

/* Always false, so that a caller can return it. */
static bool
fail(struct pmix_failure *failure, pmix_status_t status)
{
    *failure = (struct pmix_failure){.words = PMIx_Error_string(status)};
    return false;
}

static bool
succeed_or_fail(struct pmix_failure *failure, pmix_status_t status)
{
    return status == PMIX_SUCCESS || fail(failure, status);
}

/* ---- joining ---- */

static void
connection_lost(size_t registration, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *info,
                size_t info_count, pmix_info_t *results, size_t result_count, pmix_event_notification_cbfunc_fn_t done,
                void *done_data)
{
    (void)registration, (void)status, (void)source, (void)info, (void)info_count, (void)results, (void)result_count;
    atomic_store(&server_gone, true);
    wake_caller();
    if (done != NULL)
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, done_data);
}

static bool
member_server_is_gone(void)
{
    return atomic_load(&server_gone);
}

static bool
member_join(void (*wake_p)(void), struct pmix_failure *failure)
{
    wake_caller = wake_p;
    sigset_t all, before; /* threads inherit their creator's mask */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pmix_status_t status = PMIx_Init(&self, NULL, 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status != PMIX_SUCCESS)
        return fail(failure, status);

    /* Explicit codes: a handler for everything is never called in PMIx 4. Without it only the server's own means of
     * ending this process are left, so what registering it returns changes nothing. */
    pmix_status_t code = PMIX_ERR_LOST_CONNECTION;
    PMIx_Register_event_handler(&code, 1, NULL, 0, connection_lost, NULL, NULL);
    return true;
}

static void
member_leave(void)
{
    (void)PMIx_Finalize(NULL, 0);
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

static struct pmix_place
member_place(void)
{
    int world_size = get_number(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
    bool possible = world_size >= 1 && self.rank < (unsigned)world_size;
    return (struct pmix_place){
        .rank = (int)self.rank,
        .world_size = possible ? world_size : -1,
        .local_rank = get_number(self.rank, PMIX_LOCAL_RANK),
        .local_size = get_number(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE),
    };
}

/* ---- the exchange ---- */

static bool
member_publish(const char *key, const void *bytes, size_t count, struct pmix_failure *failure)
{
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT};
    value.data.bo.bytes = (char *)(uintptr_t)bytes; /* PMIx copies them */
    value.data.bo.size = count;
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key, &value);
    if (status == PMIX_SUCCESS)
        status = PMIx_Commit();
    return succeed_or_fail(failure, status);
}

static void
fence_done(pmix_status_t status, void *data)
{
    (void)data;
    atomic_store(&fence_status, status);
    atomic_store(&fence_over, true);
    wake_caller();
}

static bool
member_fence_begin(struct pmix_failure *failure)
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

static bool
member_fence_is_over(void)
{
    return atomic_load(&fence_over);
}

static bool
member_fence_end(struct pmix_failure *failure)
{
    return succeed_or_fail(failure, atomic_load(&fence_status));
}

static bool
member_fetch(int rank, const char *key, struct pmix_bytes *bytes_p, struct pmix_failure *failure)
{
    pmix_proc_t of;
    PMIX_LOAD_PROCID(&of, self.nspace, (pmix_rank_t)rank);
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(&of, key, NULL, 0, &value);
    if (status != PMIX_SUCCESS || value == NULL)
        return fail(failure, status);
    if (value->type != PMIX_BYTE_OBJECT) {
        PMIX_VALUE_RELEASE(value);
        (void)fail(failure, PMIX_ERR_TYPE_MISMATCH);
        failure->is_other_form = true;
        return false;
    }
    *bytes_p = (struct pmix_bytes){.bytes = value->data.bo.bytes, .count = value->data.bo.size, .value = value};
    return true;
}

static void
member_release(struct pmix_bytes *bytes)
{
    pmix_value_t *value = bytes->value;
    PMIX_VALUE_RELEASE(value);
    *bytes = (struct pmix_bytes){.bytes = NULL};
}

__attribute__((visibility("default"))) extern const struct pmix_member ddprun_pmix_member;

const struct pmix_member ddprun_pmix_member = {
    .protocol = DDPRUN_PROTOCOL_VERSION,
    .version = PMIx_Get_version,
    .join = member_join,
    .place = member_place,
    .server_is_gone = member_server_is_gone,
    .publish = member_publish,
    .fence_begin = member_fence_begin,
    .fence_is_over = member_fence_is_over,
    .fence_end = member_fence_end,
    .fetch = member_fetch,
    .release = member_release,
    .leave = member_leave,
};
