/*
 * pending_averages.c - see player.h: operations that are not in the plan, and touch gradients that wait for the other
 * ranks. One that only reads, for a log, may: the gradients have the same bits before it and after it. The device is
 * waited for, and with it ranks whose turn is later: their own gradients do not wait yet.
 *
 * A gradient that no operation of the plan has touched since it was made does not wait: the program gives it its first
 * values.
 */
#include "tools/plan/trainer/player.h"

/* [tensor_count]: what is touched, before the operation; and after it, if that has changed it. */
static char **kept, **brought;
static bool any_unused = true;

bool
pending_is_averaged(uint32_t tensor)
{
    uint32_t role = player.play.tensors[tensor].role;
    bool is_changed = role == PLAY_CHANGES || role == PLAY_SUM || role == PLAY_LAST;
    return role == PLAY_GRADIENT || (is_changed && player_is_by_state());
}

/* Marks gradients in the allocation that these bytes touch. Whether a gradient is among the bytes. */
static bool
mark(uint64_t address, uint64_t bytes)
{
    const struct allocation *found = NULL;
    FOR_EACH_UNTIL(tensor, player.play.tensors, player.play.plan.tensor_count, found != NULL) {
        if (pending_is_averaged(NUMBER_OF(tensor)) && player_touches(tensor, address, bytes))
            found = player_allocation(tensor);
    }
    FOR_EACH_UNTIL(tensor, player.play.tensors, player.play.plan.tensor_count, found == NULL) {
        if (pending_is_averaged(NUMBER_OF(tensor)) && player_allocation(tensor) == found)
            player.named[NUMBER_OF(tensor)].is_touched = true;
    }
    return found != NULL;
}

/* Marks the planned memory that the operation touches. Whether there is any. */
static bool
mark_all(const struct operation *operation)
{
    FOR_EACH_MUTABLE(named, player.named, player.play.plan.tensor_count)
        named->is_touched = false;
    return player_any(operation, true, mark);
}

bool
pending_touched(const struct operation *operation)
{
    return mark_all(operation) &&
           ANY(it, player.named, player.play.plan.tensor_count,
               it->is_touched && (it->is_used || player.play.tensors[NUMBER_OF(it)].role != PLAY_GRADIENT));
}

void
pending_reached(const struct operation *operation, uint32_t at)
{
    (void)mark_all(operation);
    FOR_EACH_MUTABLE(named, player.named, player.play.plan.tensor_count)
        named->reached = named->is_touched && named->reached <= at ? at + 1 : named->reached;
}

bool
pending_is_complete(uint32_t next)
{
    return ANY(it, player.named, player.play.plan.tensor_count,
               it->is_touched && it->reached > 0 && it->reached <= next);
}

enum { TABLE_BYTES = 1 << 16 };

/* Whether memory that a launch gets holds addresses of what is averaged. */
static bool
leads_there(uint64_t address, uint64_t one)
{
    (void)one;
    static uint64_t words[TABLE_BYTES / sizeof(uint64_t)];
    const struct allocation *allocation = allocations_find(address);
    uint64_t bytes = allocation != NULL ? allocation->bytes / sizeof(*words) * sizeof(*words) : 0;
    if (bytes == 0 || bytes > sizeof(words))
        return false;
    player_synchronize();
    memory_read(allocation, 0, words, bytes);
    return ANY_NUMBER(i, 0, bytes / sizeof(*words), words[i] != 0 && mark(words[i], 1));
}

bool
pending_may_touch(const struct operation *operation)
{
    const struct kernel *kernel = operation->function != NULL ? kernels_find(operation->function) : NULL;
    const bool is_unknown = operation->opaque || operation->graph != NULL || (kernel != NULL && !kernel->known);
    if (is_unknown || pending_touched(operation))
        return true;
    if (ANY(operand, operation->operands, operation->operand_count, operand->pointer_count > 0))
        return true;
    return player_any(operation, false, leads_there);
}

void
pending_used(const struct operation *operation)
{
    if (!any_unused)
        return;
    (void)mark_all(operation);
    any_unused = false;
    FOR_EACH_MUTABLE(named, player.named, player.play.plan.tensor_count) {
        named->is_used = named->is_used || named->is_touched;
        any_unused = any_unused || (player.play.tensors[NUMBER_OF(named)].role == PLAY_GRADIENT && !named->is_used);
    }
}

void
pending_averaged(void)
{
    FOR_EACH_MUTABLE(named, player.named, player.play.plan.tensor_count)
        named->is_used = true; /* by pointers that no argument shows, too */
    any_unused = false;
}

void
pending_made(uint32_t tensor)
{
    player.named[tensor].is_used = false;
    any_unused = true;
}

/* What only the host reads may get another value: that of the operation is the newest. */
static bool
is_watched(uint32_t tensor)
{
    return player.named[tensor].is_touched && player.play.tensors[tensor].role != PLAY_LAST;
}

void
pending_keep(void)
{
    kept = player_hold(is_watched);
}

bool
pending_restore(void)
{
    bool has_changed = player_differs(kept);
    if (!has_changed) {
        player_release(&kept);
        return false;
    }
    brought = player_hold(is_watched);
    player_put_back(kept);
    return true;
}

/* The bytes of `to` become those that were changed, where they were. */
static void
take_changes(char *to, const char *before, const char *after, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; ++i)
        to[i] = before[i] != after[i] ? after[i] : to[i];
}

void
pending_bring(bool again)
{
    char **now = again ? player_hold(is_watched) : NULL;
    for (uint32_t i = 0; again && i < player.play.plan.tensor_count; ++i) {
        if (now[i] != NULL && brought[i] != NULL)
            take_changes(now[i], kept[i], brought[i], player.play.tensors[i].hi - player.play.tensors[i].lo);
    }
    player_put_back(now);
    player_release(&now);
    player_release(&kept);
    player_release(&brought);
}
