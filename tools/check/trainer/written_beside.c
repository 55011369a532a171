/*
 * written_beside.c - which memory without annotation do updaters write beside parameters? (check.h)
 *
 * The run that writes the reference looks. In the step after the one that found an updater (updaters.c), each
 * operation of it is looked at: which bytes without annotation, behind its pointers, does it change? So are, in all
 * later steps, those with pointers that no step before had: what is trained every fifth step, or from the thirtieth on.
 * In other runs the operations of updaters only say where that memory is. beside_ranges.c compares it.
 *
 * This is evidence, and no verdict: momentum is written so, too. What is trained without an annotation is said by
 * ../verdict/ where ranks differ, and by ../unannotated/ where they are equal. A run that looks at operations or at
 * calls, or that begins elsewhere, does not look for it: no verdict reads its rows of such memory.
 */
#include "tools/check/trainer/check.h"

#include "tools/common/each.h"
#include "tools/common/owned.h"
#include "tools/near/element.h"

enum {
    WATCHED_AT_MOST = 8, /* segments of one operation */
    LOOKS_AT_MOST = 3,   /* at what lies behind one pointer */
};

/* Memory that is looked at around an operation. */
struct watched {
    uint32_t argument;
    CUdeviceptr begin; /* where the argument points */
    size_t bytes;
    char *before; /* malloc'ed */
    int type;
};

/* A pointer that a function was given. */
struct given {
    uint64_t call;
    CUdeviceptr address;
    unsigned times;
};

/* Guarded by memory_lock. */
static struct {
    bool is_off;            /* no verdict reads what this run would find */
    uint32_t step;          /* boundaries so far */
    struct given *pointers; /* [pointer_count]: those of updaters say where memory behind others ends */
    size_t pointer_count;
    struct given *owners; /* [owner_count]: in this step, so often updater `call` was called with `address`, an owner */
    size_t owner_count;
} beside;

/* What the current operation of this thread was given, from before it to after it. */
static __thread struct {
    enum { LOOKS_AT_NOTHING, LOOKS_FOR_UPDATERS, LOOKS_BESIDE } looks;
    struct watched watched[WATCHED_AT_MOST];
    size_t count;
    const struct updater *updater;
    uint64_t call;
    const char *name;
    uint32_t owner, ordinal; /* as in struct check_memory */
    bool has_new;            /* a pointer to memory without annotation that is not known */
} around;

/* Where it is in a list, at whose end it is put if it is not there. */
static struct given *
find_or_add(struct given **list, size_t *count, uint64_t call, CUdeviceptr address)
{
    struct given *known = FIND(it, *list, *count, it->call == call && it->address == address);
    if (known != NULL)
        return known;
    *list = values_room(*list, (*count + 1) * sizeof(**list));
    (*list)[*count] = (struct given){call, address, 0};
    return &(*list)[(*count)++];
}

static struct given *
note_pointer(CUdeviceptr address)
{
    return find_or_add(&beside.pointers, &beside.pointer_count, around.call, address);
}

static void
note_given(void *arg, const struct pointed *pointed)
{
    (void)arg;
    if (device_ask_about(pointed->address).begin != 0)
        (void)note_pointer(pointed->address);
}

/* ---- how far memory behind a pointer is looked at ---- */

/* No more than twice what is annotated: a pool may hold anything behind it. */
static size_t
most_behind(void)
{
    size_t most = 4096;
    engine_lock();
    for (size_t i = 0; i < engine_state.tensor_count; ++i)
        most += memory_state.tensors[i].role == TENSOR_PARAMETER ? 2 * memory_state.tensors[i].bytes : 0;
    engine_unlock();
    return most;
}

/* How far behind `begin` an updater may write that was given this pointer; `known` 0: not known. */
static size_t
bytes_behind(CUdeviceptr begin, size_t known)
{
    struct memory_facts facts = device_ask_about(begin);
    if (facts.begin == 0)
        return 0;
    CUdeviceptr end = facts.begin + facts.bytes;
    FOR_EACH_UNTIL(given, beside.pointers, beside.pointer_count, known != 0) {
        bool is_inside = given->address > begin && given->address < end;
        if (is_inside && updaters_find(given->call) != NULL)
            end = given->address;
    }
    if (known > 0 && begin + known < end)
        end = begin + known;
    const size_t most = most_behind();
    return end - begin < most ? end - begin : most;
}

static void
watch_memory(void *arg, const struct pointed *pointed)
{
    struct tensor tensor;
    CUdeviceptr begin = pointed->address, next;
    (void)arg;
    if (around.count == WATCHED_AT_MOST)
        return;
    bool annotated = pointers_annotated(begin, &tensor, &next);
    size_t bytes = bytes_behind(begin, pointed->bytes);
    if (annotated && begin + bytes <= tensor.address + tensor.bytes) /* else it may say too little */
        return;
    int type = annotated && tensor.role == TENSOR_PARAMETER ? tensor.type : around.updater->found.type;
    if (bytes < element_size(type) || begin % element_size(type) != 0)
        return;
    struct watched *watched = &around.watched[around.count++];
    *watched = (struct watched){.argument = pointed->argument,
                                .begin = begin,
                                .bytes = bytes,
                                .type = type,
                                .before = values_room(NULL, bytes)};
    values_memory(begin, bytes, watched->before, NULL);
}

/* ---- which bytes of it have changed ---- */

/* Bytes [first, end) of what is watched were changed. */
static void
note_change(const struct watched *watched, size_t first, size_t end)
{
    size_t each = element_size(watched->type);
    first -= first % each;
    end += (each - end % each) % each;
    end = end > watched->bytes ? watched->bytes - watched->bytes % each : end;
    if (end <= first)
        return;
    struct check_memory found = {.tensor = {.role = CHECK_MEMORY,
                                            .group = updaters_changes_at(around.updater, watched->argument),
                                            .type = (uint32_t)watched->type,
                                            .count = (end - first) / each,
                                            .argument = watched->argument & ((1u << POINTER_WORD_SHIFT) - 1)},
                                 .call = around.call,
                                 .owner = around.owner,
                                 .ordinal = around.ordinal,
                                 .argument = watched->argument,
                                 .offset = (int64_t)first,
                                 .bytes = end - first};
    snprintf(found.tensor.text, sizeof(found.tensor.text), "%s", around.name);
    beside_ranges_add(&found, watched->begin + first);
}

/* Bytes [first, end) of what is watched are not annotated. */
static void
compare_gap(const struct watched *watched, const char *after, size_t first, size_t end)
{
    while (first < end && after[first] == watched->before[first])
        ++first;
    while (end > first && after[end - 1] == watched->before[end - 1])
        --end;
    if (first < end)
        note_change(watched, first, end);
}

static void
compare_memory(const struct watched *watched)
{
    OWNED char *after = values_room(NULL, watched->bytes);
    values_memory(watched->begin, watched->bytes, after, NULL);
    for (size_t at = 0; at < watched->bytes;) {
        struct tensor tensor;
        CUdeviceptr next;
        if (pointers_annotated(watched->begin + at, &tensor, &next)) {
            at = tensor.address + tensor.bytes - watched->begin;
            continue;
        }
        size_t gap = next - watched->begin < watched->bytes ? next - watched->begin : watched->bytes;
        compare_gap(watched, after, at, gap);
        at = gap;
    }
}

/* ---- which call of the updater it is ---- */

static void
note_owner(void *arg, const struct pointed *pointed)
{
    struct tensor tensor;
    CUdeviceptr next;
    (void)arg;
    if (around.owner == 0 && pointers_annotated(pointed->address, &tensor, &next))
        around.owner = ((uint32_t)tensor.role + 1) << 24 | (uint32_t)tensor.index;
}

/* Where is it now? */
static void
resolve_pointed(void *arg, const struct pointed *pointed)
{
    (void)arg;
    struct check_memory at = {
        .call = around.call, .owner = around.owner, .ordinal = around.ordinal, .argument = pointed->argument};
    beside_ranges_resolve(&at, pointed->address);
}

static void
find_call(const struct operation *operation, const struct function_layout *layout)
{
    around.owner = 0;
    pointers_visit(operation, layout, false, note_owner, NULL);
    around.ordinal = find_or_add(&beside.owners, &beside.owner_count, around.call, around.owner)->times++;
    updaters_count(around.updater, operation, layout);
    pointers_visit(operation, layout, false, resolve_pointed, NULL);
}

/* ---- around an operation ---- */

/* Once memory that is known is where this operation has it. */
static void
note_new(void *arg, const struct pointed *pointed)
{
    struct tensor tensor;
    CUdeviceptr next;
    (void)arg;
    if (!pointers_annotated(pointed->address, &tensor, &next) && !beside_ranges_have(pointed->address))
        around.has_new = note_pointer(pointed->address)->times++ < LOOKS_AT_MOST || around.has_new;
}

/* Whether it is looked at what else the updater changes: in the step behind that in which it was found, and where it
 * gets new memory. */
static bool
is_due(const struct operation *operation, const struct function_layout *layout)
{
    const uint32_t since = around.updater->since;
    if (values_writer() == NULL || around.updater->found.type == 0)
        return false;
    if (beside.step == since + 1)
        return true;
    around.has_new = false;
    pointers_visit(operation, layout, false, note_new, NULL);
    return around.has_new;
}

static void
begin_operation(const struct operation *operation, const struct function_layout *layout)
{
    around.name = layout != NULL ? layout->name : operation->name;
    around.call = layout != NULL ? layout->call : call_identity(operation->name);
    around.updater = updaters_find(around.call);
    const bool is_old = around.updater != NULL && around.updater->since < beside.step;
    if (!is_old && values_writer() != NULL) {
        around.looks = LOOKS_FOR_UPDATERS;
        if (updaters_look_begins(around.call, operation, layout))
            pointers_visit(operation, layout, false, note_given, NULL);
        return;
    }
    if (around.updater == NULL)
        return;
    find_call(operation, layout);
    if (!is_due(operation, layout))
        return;
    around.looks = LOOKS_BESIDE;
    around.count = 0;
    context_synchronize("before an operation that updates parameters");
    pointers_visit(operation, layout, false, watch_memory, NULL);
}

static void
note_touch(void *arg, const struct pointed *pointed)
{
    const struct operation *operation = arg;
    bool is_source = pointed->argument > 0 && strncmp(operation->name, "cuMemcpy", 8) == 0;
    beside_ranges_touched(around.call, pointed->address, is_source ? pointed->bytes : 0);
}

/* What becomes of changed memory depends on all operations that get it. */
static void
note_touches(const struct operation *operation)
{
    const struct function_layout *layout = operation->function != NULL ? function_layout(operation->function) : NULL;
    around.call = layout != NULL ? layout->call : call_identity(operation->name);
    HOLD(&memory_lock);
    pointers_visit(operation, layout, true, note_touch, (void *)operation);
}

void
beside_operation_begins(const struct operation *operation)
{
    const struct function_layout *layout;
    around.looks = LOOKS_AT_NOTHING;
    if (beside.is_off)
        return;
    if (check_run.probes)
        note_touches(operation);
    if (!pointers_may_update(operation, &layout))
        return;
    HOLD(&memory_lock);
    ENTER_CONTEXT();
    begin_operation(operation, layout);
}

static void
compare_watched(bool enqueued)
{
    if (enqueued)
        context_synchronize("after an operation that updates parameters");
    FOR_EACH(watched, around.watched, around.count) {
        if (enqueued)
            compare_memory(watched);
        free(watched->before);
    }
}

void
beside_operation_ends(bool enqueued)
{
    if (around.looks == LOOKS_AT_NOTHING)
        return;
    HOLD(&memory_lock);
    ENTER_CONTEXT();
    if (around.looks == LOOKS_FOR_UPDATERS)
        updaters_look_ends(enqueued);
    else
        compare_watched(enqueued);
    around.looks = LOOKS_AT_NOTHING;
}

/* ---- the run ---- */

void
beside_open(void)
{
    beside.is_off = check_run.look > 0 || check_run.as_rank_0 || check_run.is_far || check_run.nudge > 0;
    if (beside.is_off)
        return;
    beside_ranges_open();
    updaters_open();
}

static void
pass_boundary(uint32_t step)
{
    beside_ranges_boundary(step);
    updaters_boundary(step);
    beside.step = step;
    beside.owner_count = 0;
}

void
beside_boundary(uint32_t step)
{
    HOLD(&memory_lock);
    pass_boundary(step);
}

void
beside_ends(uint32_t step)
{
    HOLD(&memory_lock);
    beside_ranges_end(step);
    updaters_end(step);
    pass_boundary(step);
}
