/*
 * inflight.c - which collectives are on their way, between two events each, for the watch thread (watchdog.c). The
 * issuer calls this around everything that it sends.
 */
#include "interpose/engine/core/core.h"

struct awaited in_flight[COMMUNICATORS];

void
inflight_prepare(void)
{
    static const char what[] = "cuEventCreate for the watch";
    for (unsigned i = 0; i < COMMUNICATORS; ++i) { /* the program's may be opened later */
        struct awaited *awaited = &in_flight[i];
        CUDA(what, cuEventCreate, &awaited->tail, CU_EVENT_DISABLE_TIMING);
        for (unsigned k = 0; k < AWAITED_AT_MOST; ++k) {
            CUDA(what, cuEventCreate, &awaited->sent[k].begin, CU_EVENT_DISABLE_TIMING);
            CUDA(what, cuEventCreate, &awaited->sent[k].end, CU_EVENT_DISABLE_TIMING);
        }
    }
}

static void
record_sent(CUevent event, unsigned communicator)
{
    CUDA("cuEventRecord for the watch", cuEventRecord, event,
         engine_state.collectives.communicators[communicator].stream);
}

/* The place after the ring's last, where the watch thread does not look yet: it stays when the first leave. */
static unsigned
place_behind(const struct awaited *awaited) WITH_LOCK
{
    return (awaited->first + awaited->count) % AWAITED_AT_MOST;
}

/* Where as many are remembered as can be, and the watch thread has not looked since the first of them has ended, it is
 * forgotten: short steps send more than that between two looks. */
static void
make_room(struct awaited *awaited) BY_ISSUER
{
    issuer_lock();
    bool is_full = awaited->count == AWAITED_AT_MOST;
    unsigned at = awaited->first;
    issuer_unlock();
    if (!is_full)
        return;
    RELAX_CAPTURES(); /* for the query */
    if (engine_state.driver.cuEventQuery_p(awaited->sent[at].end) != CUDA_SUCCESS)
        return;
    issuer_lock();
    /* Or the watch thread has looked meanwhile. If it has forgotten all, the first has its old place again. */
    if (awaited->first == at && awaited->count == AWAITED_AT_MOST)
        inflight_forget_first(awaited);
    issuer_unlock();
}

void
inflight_forget_first(struct awaited *awaited)
{
    ASSERT(awaited->count > 0);
    awaited->first = (awaited->first + 1) % AWAITED_AT_MOST;
    --awaited->count;
}

void
inflight_sending(const char *what, uint64_t number, unsigned communicator)
{
    struct awaited *awaited = &in_flight[communicator];
    make_room(awaited);
    issuer_lock();
    unsigned at = place_behind(awaited);
    bool records = awaited->count < AWAITED_AT_MOST && !awaited->more && !awaited->tail_pending;
    awaited->calling = (struct collective_in_flight){what, number, engine_state.boundary_count + 1};
    if (records)
        awaited->sent[at].of = awaited->calling;
    issuer_unlock();
    awaited->recording = records;
    if (records)
        record_sent(awaited->sent[at].begin, communicator);
}

void
inflight_sent(const char *what, uint64_t number, unsigned communicator)
{
    struct awaited *awaited = &in_flight[communicator];
    issuer_lock();
    unsigned at = place_behind(awaited);
    awaited->calling = (struct collective_in_flight){0};
    if (!awaited->recording) {
        awaited->more = true;
        awaited->last = (struct collective_in_flight){what, number, engine_state.boundary_count + 1};
    }
    issuer_unlock();
    if (!awaited->recording)
        return;

    record_sent(awaited->sent[at].end, communicator); /* first: an event that is not recorded yet counts as come */
    issuer_lock();
    ASSERT(awaited->count < AWAITED_AT_MOST);
    ++awaited->count;
    issuer_unlock();
}
