/*
 * unclassed.c - see player.h: of a proof by state, which memory may differ between ranks where a step begins, and the
 * plan has no class for it. The plan's tensors have a class. A loader's copy may be there when its step begins. And all
 * ranks have the same where the last write was a copy from the host that all of them make, as a plan has copies of
 * batches: ranks get the same batches (rank_agreement.c). Whether such a copy was the last write is seen by contents.
 *
 * Called by exchange.c, under the lock of follow.c.
 */
#include "tools/plan/trainer/player.h"

#include <xxhash.h>

/* What copies of steps, and of loaders, bring to the device: each range once. */
static struct filled {
    uint32_t number; /* of the allocation */
    uint64_t lo, hi;
    bool is_ahead; /* a loader's copy: it may be there when its step begins */
    bool is_alike; /* all ranks made the last copy, which brought bytes of this hash; and at the last border these were
                    * there */
    uint64_t hash;
} * filled;
static size_t filled_count;

static struct filled *
filled_of(const struct operand *operand, bool is_ahead)
{
    const struct allocation *allocation = operand_is_target(operand) ? allocations_find(operand->address) : NULL;
    if (allocation == NULL)
        return NULL;
    struct filled it = {
        .number = allocation->number, .lo = operand->address - allocation->address, .is_ahead = is_ahead};
    it.hi = it.lo + operand->bytes;
    struct filled *found =
        FIND(other, filled, filled_count,
             other->number == it.number && other->lo == it.lo && other->hi == it.hi && other->is_ahead == is_ahead);
    if (found != NULL)
        return found;
    struct filled *added = SCOUT_GROWN(filled, filled_count);
    *added = it;
    return added;
}

void
unclassed_note(const struct operation *operation, bool is_ahead)
{
    FOR_EACH(operand, operation->operands, operation->operand_count)
        (void)filled_of(operand, is_ahead);
}

/* 0: it is not there. */
static uint64_t
hash_of(const struct filled *it)
{
    const struct allocation *allocation = allocations_numbered(it->number);
    if (allocation == NULL)
        return 0;
    char *bytes = player_room(it->hi - it->lo);
    memory_read(allocation, it->lo, bytes, it->hi - it->lo);
    uint64_t hash = XXH3_64bits(bytes, it->hi - it->lo);
    free(bytes);
    return hash;
}

void
unclassed_note_copy(const struct operation *operation)
{
    struct sent sent;
    if (!player_sends(operation, &sent))
        return;
    player_synchronize();
    FOR_EACH(operand, operation->operands, operation->operand_count) {
        struct filled *it = operand_rows(operand) == 1 ? filled_of(operand, false) : NULL;
        if (it == NULL)
            continue;
        it->is_alike = true;
        it->hash = hash_of(it);
    }
}

void
unclassed_meet_border(void)
{
    FOR_EACH_MUTABLE(it, filled, filled_count)
        it->is_alike = it->is_alike && hash_of(it) == it->hash;
}

static void
widen(uint64_t lo, uint64_t hi, uint64_t at, uint64_t *end, uint64_t *next)
{
    if (lo <= at && hi > *end)
        *end = hi;
    if (lo > at && lo < *next)
        *next = lo;
}

uint64_t
unclassed_begins(const struct allocation *allocation, uint64_t at, bool is_outside, uint64_t *next)
{
    uint64_t end = at;
    FOR_EACH_UNTIL(written, player.play.written, player.play.plan.written_count, !is_outside) {
        if (written->bytes == allocation->bytes && written->ordinal == allocation->ordinal && !written->moves)
            widen(written->lo, written->hi, at, &end, next);
    }
    FOR_EACH(it, filled, filled_count) {
        if (it->number == allocation->number && (is_outside || it->is_ahead || it->is_alike))
            widen(it->lo, it->hi, at, &end, next);
    }
    FOR_EACH(tensor, player.play.tensors, player.play.plan.tensor_count) {
        if (tensor->bytes == allocation->bytes && tensor->ordinal == allocation->ordinal)
            widen(tensor->lo, tensor->hi, at, &end, next);
    }
    return end;
}
