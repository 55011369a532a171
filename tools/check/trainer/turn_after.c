/*
 * turn_after.c - what runs after each batch, where it means once an update (check.h).
 *
 * After a DDP_STEP without effect the region's work is left out, and what still runs stands after the region: a moving
 * average of the weights, weight decay, clipping. On all ranks it runs N times an update, and so it does in one process
 * that plays all turns: the training is equal, and another one than is meant. Such a call finds its memory as its last
 * call has left it, for there was no update, and changes it again. A validation, which computes the same again, does
 * not.
 *
 * The run that writes the reference looks at calls that are given a parameter or state, in the rounds in which
 * turn_memory.c looks, and reports each once. Called by turn_host.c.
 */
#include "tools/check/trainer/check.h"

#include "tools/common/each.h"
#include "tools/common/owned.h"

#include <xxhash.h>

enum { CALLS_AT_MOST = 128, RANGES_AT_MOST = 32, KEPT_BYTES = 32 << 10, FIRST_ROUND = 1, LAST_ROUND = 2 };

/* The memory that a call is given. */
struct given {
    CUdeviceptr ranges[RANGES_AT_MOST]; /* [count] */
    size_t count;
    bool has_parameter; /* or state */
};

/* A call, by its function and all pointers that it was given. */
struct call {
    uint64_t identity;
    uint64_t left; /* hash of what the memory held after its last call */
    bool is_reported;
};

/* Guarded by memory_lock. */
static struct {
    struct call list[CALLS_AT_MOST];
    size_t count;
} calls;

/* The operation under way. */
static __thread struct {
    struct given given;
    uint64_t identity, before;
    char name[96];
} under_way;

/* For each pointer of an operation: notes its device memory, and whether a parameter is among it. */
static void
note_given(void *arg, const struct pointed *pointed)
{
    struct given *given = arg;
    struct tensor tensor;
    CUdeviceptr next;
    if (given->count == RANGES_AT_MOST || device_ask_about(pointed->address).type != CU_MEMORYTYPE_DEVICE)
        return;
    given->ranges[given->count++] = pointed->address;
    const bool is_annotated = pointers_annotated(pointed->address, &tensor, &next);
    given->has_parameter = given->has_parameter || (is_annotated && tensor_is_compared(&tensor));
}

/* The beginning of each range. */
static uint64_t
hash_memory(const struct given *given)
{
    uint64_t hash = 0;
    OWNED char *bytes = values_room(NULL, KEPT_BYTES);
    context_synchronize("after a turn's DDP_STEP");
    FOR_EACH(address, given->ranges, given->count) {
        const struct memory_facts facts = device_ask_about(*address);
        const uint64_t rest = facts.begin + facts.bytes - *address;
        const size_t looked_at = rest < KEPT_BYTES ? rest : KEPT_BYTES;
        values_memory(*address, looked_at, bytes, NULL);
        hash = XXH3_64bits_withSeed(bytes, looked_at, hash);
    }
    return hash;
}

/* What is known of the calls of this identity (call site and kernel), which is added; NULL: there is no room. */
static struct call *
call_of(uint64_t identity)
{
    struct call *known = FIND(it, calls.list, calls.count, it->identity == identity);
    if (known != NULL || calls.count == CALLS_AT_MOST)
        return known;
    calls.list[calls.count] = (struct call){.identity = identity};
    return &calls.list[calls.count++];
}

/* Whether the operation is one that is looked at: a launch with known parameters, in the first run, in certain
 * rounds. */
static bool
is_looked_at(const struct operation *operation, const struct function_layout *layout)
{
    const bool is_round = check_turns.rounds >= FIRST_ROUND && check_turns.rounds <= LAST_ROUND;
    const bool is_known = layout != NULL && layout->known;
    return values_writer() != NULL && is_round && is_known && operation->graph == NULL &&
           atomic_load(&engine_state.captures_open) == 0;
}

void
turn_after_operation(const struct operation *operation)
{
    const struct function_layout *layout = operation->function != NULL ? function_layout(operation->function) : NULL;
    under_way.given = (struct given){.count = 0};
    if (!is_looked_at(operation, layout))
        return;
    HOLD(&memory_lock);
    ENTER_CONTEXT();
    struct given *given = &under_way.given;
    pointers_visit(operation, layout, true, note_given, given);
    if (!given->has_parameter) {
        given->count = 0;
        return;
    }
    snprintf(under_way.name, sizeof(under_way.name), "%s", layout->name);
    under_way.identity = XXH3_64bits_withSeed(given->ranges, given->count * sizeof(given->ranges[0]), layout->call);
    under_way.before = hash_memory(given);
}

/* Adds a row: the call under way comes after each batch, where it means once an update. */
static void
report(void)
{
    struct check_row row = {.kind = CHECK_ROW_REPEATED, .step = check_turns.rounds};
    snprintf(row.tensor.text, sizeof(row.tensor.text), "%s", under_way.name);
    (void)call_site_find(row.text, sizeof(row.text));
    values_row(&row);
}

void
turn_after_operation_ends(bool has_update)
{
    if (under_way.given.count == 0)
        return;
    HOLD(&memory_lock);
    ENTER_CONTEXT();
    const uint64_t after = hash_memory(&under_way.given);
    under_way.given.count = 0;
    struct call *call = call_of(under_way.identity);
    if (call == NULL)
        return;
    const bool is_repeated = !has_update && call->left == under_way.before && after != under_way.before;
    call->left = after;
    if (!is_repeated || call->is_reported)
        return;
    call->is_reported = true;
    report();
}
