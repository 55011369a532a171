/*
 * split.c - communicators made from another one: ncclCommSplit and ncclCommShrink.
 *
 * The ranks find their new places in the thread that initialises the new communicator. A split is the business of all
 * ranks of the parent, which must be in order: they gather colours and keys, and then the unique ids that each colour's
 * first rank has made, by two collectives of the parent on host memory, after its operations. A shrink is the business
 * of those who remain, and the parent may be broken: the first of them leaves the unique id as a note in the segment.
 */
#include "nccl/export.h"
#include "nccl/group.h"
#include "nccl/visit.h"

#include <stdio.h>
#include <string.h>

/* ---- split ---- */

/* What each rank says of itself. */
struct membership {
    int32_t color, key;
};

static bool
gather(struct ncclComm *parent, const void *mine, void *everybodys, size_t bytes)
{
    const struct collective collective = {.kind = OPERATION_ALL_GATHER,
                                          .type = ncclUint8,
                                          .root = -1,
                                          .count = bytes,
                                          .send = mine,
                                          .receive = everybodys};
    collective_run(&parent->exchange, &collective);
    return exchange_error(&parent->exchange, NULL, 0) == ncclSuccess;
}

/* Whether rank a stands before rank b in a new communicator. */
static bool
is_before(const struct membership *all, int a, int b)
{
    return all[a].key != all[b].key ? all[a].key < all[b].key : a < b;
}

/* This rank's place among those of its colour; *first_p is the parent's rank that comes first. */
static void
find_place(struct ncclComm *comm, const struct membership *all, int *first_p)
{
    const struct ncclComm *parent = comm->origin.parent;
    comm->rank = comm->rank_count = 0;
    *first_p = parent->rank;
    for (int r = 0; r < parent->rank_count; ++r) {
        if (all[r].color != comm->origin.color)
            continue;
        ++comm->rank_count;
        comm->rank += r != parent->rank && is_before(all, r, parent->rank);
        if (is_before(all, r, *first_p))
            *first_p = r;
    }
}

static ncclResult_t
meet_for_split(struct ncclComm *comm)
{
    struct ncclComm *parent = comm->origin.parent;
    struct membership mine = {comm->origin.color, comm->origin.key}, all[SEGMENT_MAX_RANKS];
    ncclUniqueId id = {{0}}, ids[SEGMENT_MAX_RANKS];
    int first;
    comm_wait_for_operations(parent);
    bool has_met = gather(parent, &mine, all, sizeof(mine));
    ncclResult_t result = ncclSuccess;
    bool has_color = comm->origin.color != NCCL_SPLIT_NOCOLOR;
    if (has_met) {
        find_place(comm, all, &first);
        if (has_color && first == parent->rank) /* after an error the others find no process that serves the id */
            result = bootstrap_create_id(&id, &comm->init_error);
        has_met = gather(parent, &id, ids, sizeof(id));
    }
    if (!has_met)
        return exchange_error(&parent->exchange, comm->init_error.text, sizeof(comm->init_error.text));
    if (result == ncclSuccess && has_color)
        comm->id = ids[first];
    else if (result == ncclSuccess)
        comm->rank_count = 0;
    return result;
}

ncclResult_t
pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config)
{
    COMM_VISIT(visit);
    TRY(visit_begin_ready(comm, "ncclCommSplit", &visit));
    if (!newcomm)
        return nccl_error(ncclInvalidArgument, "ncclCommSplit: the place for the new communicator is NULL");
    if (color < 0 && color != NCCL_SPLIT_NOCOLOR)
        return nccl_error(ncclInvalidArgument, "ncclCommSplit: a color of %d: give 0 or more, or NCCL_SPLIT_NOCOLOR",
                          color);
    struct comm_origin origin = {.parent = comm, .meet = meet_for_split, .color = color, .key = key};
    bool is_blocking = comm->is_blocking;
    struct ncclComm *started;
    ncclResult_t result = comm_config(config, &is_blocking);
    if (result == ncclSuccess)
        result = comm_start_child(&started, &origin, is_blocking || color == NCCL_SPLIT_NOCOLOR);
    return result == ncclSuccess ? group_publish(newcomm, started) : result;
}
NCCL_EXPORT(ncclCommSplit);

/* ---- shrink ---- */

/* A number for this set of ranks and the how-manieth time that it is left over (FNV-1a). */
static uint64_t
note_tag(const struct comm_origin *origin, int rank_count, uint32_t serial)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int r = 0; r < rank_count; ++r)
        hash = (hash ^ (uint64_t)origin->is_excluded[r]) * 0x100000001b3u;
    for (int shift = 0; shift < 32; shift += 8)
        hash = (hash ^ (serial >> shift & 0xffu)) * 0x100000001b3u;
    return hash | 1; /* 0 is no note */
}

/* How often this rank has come out of this communicator with the same set. */
static uint32_t
next_serial(struct ncclComm *parent, const struct comm_origin *origin)
{
    uint32_t serial = 0;
    struct comm_shrinks *shrinks = &parent->shrinks;
    uint64_t set = note_tag(origin, parent->rank_count, 0);
    for (int i = 0; i < shrinks->count; ++i)
        serial += shrinks->sets[i] == set;
    shrinks->sets[shrinks->count++] = set;
    return serial + 1;
}

static ncclResult_t
meet_for_shrink(struct ncclComm *comm)
{
    struct ncclComm *parent = comm->origin.parent;
    struct segment *segment = &parent->exchange.segment;
    int first = -1;
    comm->rank = comm->rank_count = 0;
    for (int r = 0; r < parent->rank_count; ++r) {
        if (comm->origin.is_excluded[r])
            continue;
        first = first < 0 ? r : first;
        comm->rank += r < parent->rank;
        ++comm->rank_count;
    }
    uint64_t tag = comm->origin.note_tag;
    if (first == parent->rank) {
        ncclResult_t result = bootstrap_create_id(&comm->id, &comm->init_error);
        if (result == ncclSuccess)
            segment_post_note(segment, tag, &comm->id, sizeof(comm->id));
        return result;
    }
    if (segment_read_note(segment, first, tag, &comm->id, sizeof(comm->id)) == WAIT_REACHED)
        return ncclSuccess;
    snprintf(comm->init_error.text, sizeof(comm->init_error.text),
             "rank %d of the communicator that shrinks, the first that remains, is gone", first);
    return ncclRemoteError;
}

static ncclResult_t
check_shrink(struct ncclComm *comm, const int *excluded, int excluded_count, struct comm_origin *origin)
{
    for (int i = 0; i < excluded_count; ++i) {
        int rank = excluded[i];
        if (rank < 0 || rank >= comm->rank_count || rank == comm->rank)
            return nccl_error(ncclInvalidArgument, "ncclCommShrink: rank %d of %d cannot exclude rank %d", comm->rank,
                              comm->rank_count, rank);
        origin->is_excluded[rank] = true;
    }
    if (comm->shrinks.count == SHRINKS_MAX)
        return nccl_error(ncclInvalidUsage, "ncclCommShrink: a communicator shrinks at most %d times", SHRINKS_MAX);
    return ncclSuccess;
}

/* Operations of the parent that wait for a rank that is gone end in error; the rank stays, and is no longer of use. */
static void
end_operations(struct ncclComm *comm)
{
    segment_interrupt(&comm->exchange.segment);
    comm_end_work(comm);
    comm_wait_for_operations(comm);
    exchange_fail(&comm->exchange, false, ncclInternalError, "rank %d shrank the communicator and aborted this one",
                  comm->rank);
    atomic_store(&comm->exchange.segment.interrupted, false); /* the note is still to be waited for */
}

ncclResult_t
pncclCommShrink(ncclComm_t comm, int *excludeRanksList, int excludeRanksCount, ncclComm_t *newcomm,
                ncclConfig_t *config, int shrinkFlags)
{
    static const char call[] = "ncclCommShrink";
    bool aborts = shrinkFlags == NCCL_SHRINK_ABORT;
    COMM_VISIT(visit);
    ncclResult_t result = visit_begin(comm, call, &visit);
    if (result == ncclSuccess && !aborts)
        result = comm_check_ready(comm, call);
    if (result != ncclSuccess)
        return result;
    if (!newcomm || !excludeRanksList || excludeRanksCount < 1 || (!aborts && shrinkFlags != NCCL_SHRINK_DEFAULT))
        return nccl_error(ncclInvalidArgument, "%s: no ranks to exclude, no place for the communicator, or flags %d",
                          call, shrinkFlags);
    if (!segment_is_mapped(&comm->exchange.segment))
        return nccl_error(ncclInvalidArgument, "%s: the communicator was never initialised", call);
    struct comm_origin origin = {.parent = comm, .meet = meet_for_shrink};
    bool is_blocking = comm->is_blocking;
    struct ncclComm *started;
    TRY(check_shrink(comm, excludeRanksList, excludeRanksCount, &origin));
    TRY(comm_config(config, &is_blocking));
    if (aborts)
        end_operations(comm);
    else
        comm_wait_for_operations(comm);
    origin.note_tag = note_tag(&origin, comm->rank_count, next_serial(comm, &origin));
    result = comm_start_child(&started, &origin, is_blocking);
    return result == ncclSuccess ? group_publish(newcomm, started) : result;
}
NCCL_EXPORT(ncclCommShrink);
