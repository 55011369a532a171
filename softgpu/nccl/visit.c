/*
 * visit.c - see visit.h.
 */
#include "nccl/visit.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static int
own_thread(void)
{
    static _Thread_local int id;
    if (id == 0)
        id = (int)gettid();
    return id;
}

static ncclResult_t
refuse(struct ncclComm *comm, const char *call, int other)
{
    char text[SEGMENT_TEXT_BYTES];
    const char *there = atomic_load(&comm->visit_call);
    snprintf(
        text, sizeof(text),
        "two threads use one communicator at once: thread %d is inside %s, and thread %d calls %s; NCCL allows one "
        "thread at a time",
        other, there ? there : "another call", own_thread(), call);
    if (atomic_load(&comm->stage) == COMM_READY)
        exchange_fail(&comm->exchange, false, ncclInvalidUsage, "%s", text);
    softgpu_line("%s", text);
    return nccl_error(ncclInvalidUsage, "%s", text);
}

ncclResult_t
visit_begin(struct ncclComm *comm, const char *call, struct ncclComm **visit_p)
{
    ncclResult_t result = comm_check(comm, call);
    if (result != ncclSuccess)
        return result;
    int other = 0;
    if (!atomic_compare_exchange_strong(&comm->visitor, &other, own_thread()) && other != own_thread())
        return refuse(comm, call, other);
    if (comm->visit_depth++ == 0)
        atomic_store(&comm->visit_call, call);
    *visit_p = comm;
    return ncclSuccess;
}

ncclResult_t
visit_begin_ready(struct ncclComm *comm, const char *call, struct ncclComm **visit_p)
{
    ncclResult_t result = visit_begin(comm, call, visit_p);
    return result == ncclSuccess ? comm_check_ready(comm, call) : result;
}

void
visit_end(struct ncclComm **visit_p)
{
    struct ncclComm *comm = *visit_p;
    if (comm && --comm->visit_depth == 0)
        atomic_store(&comm->visitor, 0);
}

void
visit_wait_for_others(const struct ncclComm *comm)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    for (int visitor; (visitor = atomic_load(&comm->visitor)) != 0 && visitor != own_thread();)
        nanosleep(&nap, NULL);
}
