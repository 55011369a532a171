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

/* A visit in one word, so that thread and call are never those of two visits: the thread above the call's distance from
 * a text of this library, of which all calls' names are neighbours. */
static const char origin[] = "origin";

static uint64_t
pack(int thread, const char *call)
{
    return (uint64_t)(uint32_t)thread << 32 | (uint32_t)((uintptr_t)call - (uintptr_t)origin);
}

static int
thread_of(uint64_t visit)
{
    return (int)(visit >> 32);
}

static const char *
call_of(uint64_t visit)
{
    return (const char *)((uintptr_t)origin + (uintptr_t)(intptr_t)(int32_t)(uint32_t)visit);
}

static ncclResult_t
refuse(struct ncclComm *comm, const char *call, uint64_t other)
{
    char text[SEGMENT_TEXT_BYTES];
    snprintf(
        text, sizeof(text),
        "two threads use one communicator at once: thread %d is inside %s, and thread %d calls %s; NCCL allows one "
        "thread at a time",
        thread_of(other), call_of(other), own_thread(), call);
    if (atomic_load(&comm->stage) == COMM_READY)
        exchange_fail(&comm->exchange, false, ncclInvalidUsage, "%s", text);
    softgpu_line("%s", text);
    return nccl_error(ncclInvalidUsage, "%s", text);
}

ncclResult_t
visit_begin(struct ncclComm *comm, const char *call, struct ncclComm **visit_p)
{
    TRY(comm_check(comm, call));
    uint64_t other = 0;
    if (!atomic_compare_exchange_strong(&comm->visit, &other, pack(own_thread(), call)) &&
        thread_of(other) != own_thread())
        return refuse(comm, call, other);
    ++comm->visit_depth;
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
        atomic_store(&comm->visit, 0);
}

void
visit_wait_for_others(const struct ncclComm *comm)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    for (uint64_t visit; (visit = atomic_load(&comm->visit)) != 0 && thread_of(visit) != own_thread();)
        nanosleep(&nap, NULL);
}
