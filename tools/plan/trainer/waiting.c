/*
 * waiting.c - see player.h: operations that are not in the plan, and touch gradients that wait for the other ranks. One
 * that only reads, for a log, may: the gradients have the same bits before it and behind it. The device is waited for,
 * and with it ranks whose turn is later: their own gradients do not wait yet.
 *
 * A gradient that no operation of the plan has touched since it was made does not wait: the program gives it its first
 * values.
 */
#include "tools/plan/trainer/player.h"

#include <stdlib.h>
#include <string.h>

static uint64_t *kept; /* [tensor_count]: hash of each gradient that is touched, before the operation; 0: none */
static bool *touched;  /* [tensor_count] */
static bool *used;     /* [tensor_count]: by an operation of the plan, since the memory was made */
static bool any_unused = true;
static uint32_t
    *reached; /* [tensor_count]: behind the plan's last operation that touches it before the average; or 0 */

bool
waiting_is_averaged(const struct play_tensor *tensor)
{
    if (!player_is_by_state())
        return tensor->role == PLAY_GRADIENT;
    return tensor->role == PLAY_CHANGES || tensor->role == PLAY_SUM || tensor->role == PLAY_LAST;
}

/* Marks gradients in the allocation that these bytes touch, if a gradient is among the bytes. */
static bool
mark(CUdeviceptr address, uint64_t bytes)
{
    const struct allocation *found = NULL;
    for (uint32_t i = 0; i < player.play.plan.tensor_count && found == NULL; ++i) {
        const struct play_tensor *tensor = &player.play.tensors[i];
        const struct allocation *allocation = waiting_is_averaged(tensor) ? player_allocation(tensor) : NULL;
        if (allocation != NULL && address < allocation->address + tensor->hi &&
            allocation->address + tensor->lo < address + bytes)
            found = allocation;
    }
    for (uint32_t i = 0; i < player.play.plan.tensor_count && found != NULL; ++i)
        touched[i] = touched[i] || (waiting_is_averaged(&player.play.tensors[i]) &&
                                    player_allocation(&player.play.tensors[i]) == found);
    return found != NULL;
}

static bool
mark_word(uint64_t word)
{
    return mark(word, 1);
}

static void
ensure_lists(void)
{
    size_t count = player.play.plan.tensor_count + 1;
    if (touched != NULL)
        return;
    touched = scout_zeroed(count, sizeof(*touched));
    used = scout_zeroed(count, sizeof(*used));
    kept = scout_zeroed(count, sizeof(*kept));
    reached = scout_zeroed(count, sizeof(*reached));
}

static bool
mark_all(const struct operation *operation)
{
    bool any = false;
    ensure_lists();
    memset(touched, 0, player.play.plan.tensor_count * sizeof(*touched));
    for (unsigned i = 0; i < operation->operand_count; ++i)
        any = mark(operation->operands[i].address, operation->operands[i].bytes) || any;
    return player_any_word(operation, mark_word) || any;
}

bool
waiting_touched(const struct operation *operation)
{
    bool any = mark_all(operation), waits = false;
    for (uint32_t i = 0; any && i < player.play.plan.tensor_count; ++i)
        waits = waits || (touched[i] && (used[i] || player_is_by_state()));
    return waits;
}

void
waiting_reached(const struct operation *operation, uint32_t at)
{
    bool any = mark_all(operation);
    for (uint32_t i = 0; any && i < player.play.plan.tensor_count; ++i)
        reached[i] = touched[i] && reached[i] <= at ? at + 1 : reached[i];
}

bool
waiting_is_complete(uint32_t next)
{
    bool is = false;
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i)
        is = is || (touched[i] && reached[i] > 0 && reached[i] <= next);
    return is;
}

enum { TABLE_BYTES = 1 << 16 };

/* Whether memory that a launch gets holds addresses of what is averaged. */
static bool
leads_there(uint64_t address)
{
    static uint64_t words[TABLE_BYTES / sizeof(uint64_t)];
    const struct allocation *allocation = allocations_find(address);
    uint64_t bytes = allocation != NULL ? allocation->bytes / sizeof(*words) * sizeof(*words) : 0;
    bool any = false;
    if (bytes == 0 || bytes > sizeof(words))
        return false;
    scout_require(scout_state.driver.cuCtxSynchronize_p(), "cuCtxSynchronize");
    memory_read(allocation, 0, words, bytes);
    for (size_t i = 0; i < bytes / sizeof(*words) && !any; ++i)
        any = words[i] != 0 && mark(words[i], 1);
    return any;
}

bool
waiting_may_touch(const struct operation *operation)
{
    const struct kernel *kernel = operation->function != NULL ? kernels_find(operation->function) : NULL;
    bool may = operation->opaque || operation->graph != NULL || (kernel != NULL && !kernel->known) ||
               waiting_touched(operation);
    for (unsigned i = 0; i < operation->operand_count && !may; ++i)
        may = operation->operands[i].pointer_count > 0;
    return may || player_any_word(operation, leads_there);
}

void
waiting_used(const struct operation *operation)
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
waiting_averaged(void)
{
    for (uint32_t i = 0; any_unused && i < player.play.plan.tensor_count; ++i)
        used[i] = true; /* by pointers that no argument shows, too */
    any_unused = false;
}

void
waiting_made(uint32_t tensor)
{
    ensure_lists();
    used[tensor] = false;
    any_unused = true;
}

void
waiting_keep(void)
{
    scout_require(scout_state.driver.cuCtxSynchronize_p(), "cuCtxSynchronize");
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i)
        kept[i] = touched[i] ? player_hash(&player.play.tensors[i]) : 0;
}

bool
waiting_changed(void)
{
    bool changed = false;
    scout_require(scout_state.driver.cuCtxSynchronize_p(), "cuCtxSynchronize");
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i)
        changed = changed || (touched[i] && player_hash(&player.play.tensors[i]) != kept[i]);
    return changed;
}
