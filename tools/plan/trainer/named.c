/*
 * named.c - see player.h: the memory that the plan names is annotated for the engine, each tensor by its role.
 */
#include "tools/near/element.h"
#include "tools/plan/trainer/player.h"

static uint32_t differ_from; /* as in struct way */

void
named_open(uint32_t first_role)
{
    differ_from = first_role;
}

/* The end of what a tensor with a role of its own, and not only bytes that stay, has from `at` on; `at`: none has. If
 * one begins between `at` and *end_p, it is the new *end_p. */
static uint64_t
end_of_named(const struct play_tensor *of, uint64_t at, uint64_t *end_p)
{
    FOR_EACH(tensor, player.play.tensors, player.play.plan.tensor_count) {
        if ((tensor->role >= PLAY_STAYS && tensor->role < PLAY_CHANGES) || tensor->bytes != of->bytes ||
            tensor->ordinal != of->ordinal)
            continue;
        if (tensor->lo <= at && at < tensor->hi)
            return tensor->hi;
        if (tensor->lo > at && tensor->lo < *end_p)
            *end_p = tensor->lo;
    }
    return at;
}

/* Bytes that stay and have no other role: they must be the same on all ranks. */
static void
annotate_rest(uint32_t number, CUdeviceptr address)
{
    const struct play_tensor *tensor = &player.play.tensors[number];
    for (uint64_t at = tensor->lo, end; at < tensor->hi; at = end) {
        uint64_t piece_end = tensor->hi;
        end = end_of_named(tensor, at, &piece_end);
        if (end != at)
            continue;
        end = piece_end;
        player.engine->state((void *)(uintptr_t)(address + at), (size_t)(end - at), DDP_UINT8,
                             &player.named[number].site);
    }
}

/* Whether a gradient has all bytes of another one; of two with the same bytes, whether it is the first. */
static bool
has_room_for(const struct play_tensor *one, const struct play_tensor *other)
{
    if (one->role != PLAY_GRADIENT || one->bytes != other->bytes || one->ordinal != other->ordinal)
        return false;
    if (one->lo > other->lo || other->hi > one->hi)
        return false;
    const bool is_larger = one->lo != other->lo || one->hi != other->hi;
    return is_larger || one < other;
}

/* Whether a gradient lies in memory of another one, at another time: the engine knows the larger, or the first. */
static bool
is_in_other(uint32_t number)
{
    const struct play_tensor *it = &player.play.tensors[number];
    return it->role == PLAY_GRADIENT &&
           ANY(other, player.play.tensors, player.play.plan.tensor_count, has_room_for(other, it));
}

void
named_annotate(uint32_t number)
{
    const struct play_tensor *tensor = &player.play.tensors[number];
    const struct allocation *allocation = player_allocation(tensor);
    if (allocation == NULL || tensor->role >= differ_from) /* data may stay, too */
        return;
    player.named[number].live = true;
    pending_made(number);
    void *memory = (void *)(uintptr_t)(allocation->address + tensor->lo);
    int type = (int)tensor->type;
    size_t count = (size_t)(tensor->hi - tensor->lo) / element_size(type);
    if (count == 0 || is_in_other(number))
        return;
    const struct ddp_site *site = &player.named[number].site;
    if (tensor->role == PLAY_PARAMETER)
        player.engine->parameter(memory, count, type, site);
    if (tensor->role == PLAY_GRADIENT)
        player.engine->gradient(memory, count, type, site);
    if (tensor->role == PLAY_STATE)
        player.engine->state(memory, count, type, site);
    if (tensor->role == PLAY_STREAM || tensor->role == PLAY_LAST)
        player.engine->state(memory, (size_t)(tensor->hi - tensor->lo), DDP_UINT8, site);
    if (tensor->role == PLAY_STAYS || tensor->role == PLAY_UNWRITTEN)
        annotate_rest(number, allocation->address);
    /* of others each rank has its own, or they share bytes with a gradient, or by_state.c has them */
}

void
named_require(void)
{
    FOR_EACH(tensor, player.play.tensors, player.play.plan.tensor_count) {
        if (tensor->role < PLAY_COMPARED && !player.named[NUMBER_OF(tensor)].live)
            scout_stop("%s is not there in batch %llu of the program: the model has other sizes than when its plan was "
                       "made; make a new plan: ddprun scout --prove with these arguments",
                       player.named[NUMBER_OF(tensor)].text, (unsigned long long)player.period + 1);
    }
}

bool
named_is_in(CUdeviceptr address)
{
    const struct allocation *allocation = allocations_known(address);
    return allocation != NULL && allocation->address == address &&
           ANY_NUMBER(i, 0, player.play.plan.tensor_count,
                      player.named[i].live && player_allocation(&player.play.tensors[i]) == allocation);
}
