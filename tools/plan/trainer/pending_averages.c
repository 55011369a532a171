/*
 * pending_averages.c - see player.h: operations that are not in the plan, and touch gradients that wait for the other
 * ranks. One that only reads, for a log, may: the gradients have the same bits before it and behind it. The device is
 * waited for, and with it ranks whose turn is later: their own gradients do not wait yet.
 *
 * A gradient that no operation of the plan has touched since it was made does not wait: the program gives it its first
 * values.
 */
#include "tools/plan/trainer/player.h"

#include <string.h>

static uint64_t kept; /* hash of what is touched, before the operation */
static bool *touched; /* [tensor_count] */
static bool *used;    /* [tensor_count]: by an operation of the plan, since the memory was made */
static bool any_unused = true;
static uint32_t
    *reached; /* [tensor_count]: behind the plan's last operation that touches it before the average; or 0 */

bool
pending_is_averaged(const struct play_tensor *tensor)
{
    bool is_changed = tensor->role == PLAY_CHANGES || tensor->role == PLAY_SUM || tensor->role == PLAY_LAST;
    return tensor->role == PLAY_GRADIENT || (is_changed && player_is_by_state());
}

/* Marks gradients in the allocation that these bytes touch, if a gradient is among the bytes. */
static bool
mark(uint64_t address, uint64_t bytes)
{
    const struct allocation *found = NULL;
    FOR_EACH_UNTIL(tensor, player.play.tensors, player.play.plan.tensor_count, found != NULL) {
        if (pending_is_averaged(tensor) && player_touches(tensor, address, bytes))
            found = player_allocation(tensor);
    }
    for (uint32_t i = 0; i < player.play.plan.tensor_count && found != NULL; ++i)
        touched[i] = touched[i] || (pending_is_averaged(&player.play.tensors[i]) &&
                                    player_allocation(&player.play.tensors[i]) == found);
    return found != NULL;
}

static void
ensure_lists(void)
{
    size_t count = player.play.plan.tensor_count + 1;
    if (touched != NULL)
        return;
    touched = scout_zeroed(count, sizeof(*touched));
    used = scout_zeroed(count, sizeof(*used));
    reached = scout_zeroed(count, sizeof(*reached));
}

static bool
mark_all(const struct operation *operation)
{
    ensure_lists();
    memset(touched, 0, player.play.plan.tensor_count * sizeof(*touched));
    return player_any(operation, true, mark);
}

bool
pending_touched(const struct operation *operation)
{
    return mark_all(operation) && ANY_NUMBER(i, 0, player.play.plan.tensor_count,
                                             touched[i] && (used[i] || player.play.tensors[i].role != PLAY_GRADIENT));
}

void
pending_reached(const struct operation *operation, uint32_t at)
{
    bool any = mark_all(operation);
    for (uint32_t i = 0; any && i < player.play.plan.tensor_count; ++i)
        reached[i] = touched[i] && reached[i] <= at ? at + 1 : reached[i];
}

bool
pending_is_complete(uint32_t next)
{
    return ANY_NUMBER(i, 0, player.play.plan.tensor_count, touched[i] && reached[i] > 0 && reached[i] <= next);
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
    return operation->opaque || operation->graph != NULL || (kernel != NULL && !kernel->known) ||
           pending_touched(operation) ||
           ANY(operand, operation->operands, operation->operand_count, operand->pointer_count > 0) ||
           player_any(operation, false, leads_there);
}

void
pending_used(const struct operation *operation)
{
    if (!any_unused)
        return;
    bool any = mark_all(operation);
    any_unused = false;
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i) {
        used[i] = used[i] || (any && touched[i]);
        any_unused = any_unused || (player.play.tensors[i].role == PLAY_GRADIENT && !used[i]);
    }
}

void
pending_averaged(void)
{
    for (uint32_t i = 0; any_unused && i < player.play.plan.tensor_count; ++i)
        used[i] = true; /* by pointers that no argument shows, too */
    any_unused = false;
}

void
pending_made(uint32_t tensor)
{
    ensure_lists();
    used[tensor] = false;
    any_unused = true;
}

static bool
is_touched(uint32_t tensor)
{
    return touched[tensor];
}

void
pending_keep(void)
{
    kept = player_hash_all(is_touched);
}

bool
pending_changed(void)
{
    return player_hash_all(is_touched) != kept;
}
