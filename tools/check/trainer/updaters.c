/*
 * updaters.c - which functions update parameters, and what else do they write? (check.h)
 *
 * The run that writes the reference looks. In the second step every operation that gets a pointer into a parameter is
 * looked at: does it change the parameter? Functions that do are updaters. Functions that come first in a later step
 * are looked at then, and all others again in steps 2, 4, 8 and so on: a rate may have been zero. In the step behind
 * that, each operation of an updater is looked at: which bytes of unannotated memory, behind its pointers, does it
 * change? So are, in all later steps, those with pointers that no step before had: what is trained every fifth step, or
 * from the thirtieth on. In other runs the operations of updaters only say where that memory is.
 *
 * This file and unannotated.c find memory and compare it. What it means for the user is said by ../verdict/ where ranks
 * differ, and by ../unannotated/ where they are equal.
 *
 * What is captured is not looked at. Operations of several threads are looked at one after the other.
 */
#include "tools/check/trainer/check.h"

#include "tools/common/each.h"
#include "tools/common/owned.h"
#include "tools/near/element.h"

enum {
    UPDATERS_AT_MOST = 64,
    WATCHED_AT_MOST = 8, /* segments of one operation */
    PROBE_BYTES = 4096,  /* of a parameter, at most PROBES times, to see whether it changes */
    PROBES = 16,
    LOOKS_AT_MOST = 3, /* at what lies behind one pointer */
};

/* Memory that is looked at around an operation. */
struct watched {
    uint32_t argument;
    CUdeviceptr pointer, begin;
    size_t bytes;
    char *before;
    int type;
};

/* A pointer that a function was given when it was looked at. */
struct given {
    uint64_t call;
    CUdeviceptr address;
    unsigned times;
};

/* A parameter that an updater is given where it changes one. */
struct updated {
    uint64_t call;
    struct tensor tensor;
    unsigned times, usual; /* since the last boundary; and at most between two of them */
};

/* Guarded by memory_lock. */
static struct {
    uint32_t step; /* boundaries so far */
    struct {
        struct check_updater found; /* type 0: it writes memory that is compared */
        uint32_t since;             /* the step in which it was found */
    } list[UPDATERS_AT_MOST];
    size_t count, written;
    struct given *pointers; /* [pointer_count]: those of updaters say where memory behind others ends */
    size_t pointer_count;
    uint64_t *looked; /* [looked_count]: functions */
    size_t looked_count;
    struct given *owners; /* [owner_count]: in this step, so often updater `call` was called with `address`, an owner */
    size_t owner_count;
    struct updated *updated; /* [updated_count]: parameters */
    size_t updated_count;
} updaters;

/* What the current operation of this thread was given, from before it to after it. */
static __thread struct {
    bool active;
    struct watched watched[WATCHED_AT_MOST];
    size_t count;
    uint64_t call;
    const char *name;
    uint32_t owner, ordinal; /* as in struct check_memory */
    bool is_for_updaters;    /* whether it changes a parameter is looked at, and not what else */
    bool has_new;            /* a pointer to unannotated memory that is not known */
} around;

static size_t
updater_of(uint64_t call)
{
    size_t i = 0;
    while (i < updaters.count && updaters.list[i].found.call != call)
        ++i;
    return i;
}

/* ---- the second step: which functions change parameters? ---- */

/* Reads some of the parameter into bytes[PROBES * PROBE_BYTES]; returns how much. */
static size_t
probe_watched(const struct watched *watched, char *bytes)
{
    if (watched->bytes <= (size_t)PROBES * PROBE_BYTES) {
        values_memory(watched->begin, watched->bytes, bytes, NULL);
        return watched->bytes;
    }
    for (size_t i = 0; i < PROBES; ++i)
        values_memory(watched->begin + watched->bytes / PROBES * i, PROBE_BYTES, bytes + i * PROBE_BYTES, NULL);
    return (size_t)PROBES * PROBE_BYTES;
}

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
    return find_or_add(&updaters.pointers, &updaters.pointer_count, around.call, address);
}

/* Whether this function is still to be looked at: in the second step, when it comes first, and now and then. */
static bool
looks_for_updaters(void)
{
    bool again = updaters.step == 1 || (updaters.step & (updaters.step - 1)) == 0;
    if (!again && ANY(it, updaters.looked, updaters.looked_count, *it == around.call))
        return false;
    updaters.looked = values_room(updaters.looked, (updaters.looked_count + 1) * sizeof(*updaters.looked));
    updaters.looked[updaters.looked_count++] = around.call;
    return true;
}

static void
watch_parameter(void *arg, const struct pointed *pointed)
{
    struct tensor tensor;
    CUdeviceptr next;
    (void)arg;
    if (device_ask_about(pointed->address).begin == 0)
        return;
    (void)note_pointer(pointed->address);
    if (around.count == WATCHED_AT_MOST || !pointers_annotated(pointed->address, &tensor, &next) ||
        tensor.role != TENSOR_PARAMETER)
        return;
    if (around.count == 0)
        context_synchronize("before an operation that may update parameters");
    struct watched *watched = &around.watched[around.count];
    *watched = (struct watched){.argument = pointed->argument,
                                .begin = tensor.address,
                                .bytes = tensor.bytes,
                                .type = tensor.type,
                                .before = values_room(NULL, (size_t)PROBES * PROBE_BYTES)};
    (void)probe_watched(watched, watched->before);
    ++around.count;
}

static bool
parameter_changed(const struct watched *watched)
{
    OWNED char *after = values_room(NULL, (size_t)PROBES * PROBE_BYTES);
    size_t bytes = probe_watched(watched, after);
    return memcmp(watched->before, after, bytes) != 0;
}

/* Whether the updater was seen to change a parameter that it got in this place. */
static bool
is_parameters_place(size_t updater, uint32_t argument)
{
    const struct check_updater *found = &updaters.list[updater].found;
    return ANY(place, found->places, found->place_count, *place == argument);
}

static void
note_updater(const struct watched *watched)
{
    size_t updater = updater_of(around.call);
    if (updater == UPDATERS_AT_MOST)
        return;
    if (updater == updaters.count) {
        updaters.list[updaters.count].since = updaters.step;
        updaters.list[updaters.count++].found.call = around.call;
    }
    struct check_updater *found = &updaters.list[updater].found;
    if (found->type == 0)
        found->type = watched->type;
    if (found->place_count < CHECK_PLACES_AT_MOST && !is_parameters_place(updater, watched->argument))
        found->places[found->place_count++] = watched->argument;
}

/* ---- the third step: what else do they change? ---- */

/* How far behind `begin` an updater may write that was given this pointer; `known` 0: not known. */
static size_t
bytes_behind(CUdeviceptr begin, size_t known)
{
    struct memory_facts facts = device_ask_about(begin);
    if (facts.begin == 0)
        return 0;
    CUdeviceptr end = facts.begin + facts.bytes;
    for (size_t i = 0; known == 0 && i < updaters.pointer_count; ++i) {
        const struct given *given = &updaters.pointers[i];
        if (given->address > begin && given->address < end && updater_of(given->call) < updaters.count)
            end = given->address;
    }
    if (known > 0 && begin + known < end)
        end = begin + known;
    size_t all = 4096; /* no more than twice what is annotated: a pool may hold anything behind it */
    engine_lock();
    for (size_t i = 0; i < engine_state.tensor_count; ++i)
        all += memory_state.tensors[i].role == TENSOR_PARAMETER ? 2 * memory_state.tensors[i].bytes : 0;
    engine_unlock();
    return end - begin < all ? end - begin : all;
}

static void
watch_unannotated(void *arg, const struct pointed *pointed)
{
    const int *type = arg;
    struct tensor tensor;
    CUdeviceptr begin = pointed->address, next;
    if (around.count == WATCHED_AT_MOST)
        return;
    bool annotated = pointers_annotated(begin, &tensor, &next);
    size_t bytes = bytes_behind(begin, pointed->bytes);
    if (annotated && begin + bytes <= tensor.address + tensor.bytes) /* else it may say too little */
        return;
    int of_type = annotated && tensor.role == TENSOR_PARAMETER ? tensor.type : *type;
    if (bytes < element_size(of_type) || begin % element_size(of_type) != 0)
        return;
    struct watched *watched = &around.watched[around.count];
    *watched = (struct watched){.argument = pointed->argument,
                                .pointer = pointed->address,
                                .begin = begin,
                                .bytes = bytes,
                                .type = of_type,
                                .before = values_room(NULL, bytes)};
    values_memory(begin, bytes, watched->before, NULL);
    ++around.count;
}

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
    CUdeviceptr begin = watched->begin + first;
    struct check_memory found = {.tensor = {.role = CHECK_MEMORY,
                                            .group = is_parameters_place(updater_of(around.call), watched->argument),
                                            .type = (uint32_t)watched->type,
                                            .count = (end - first) / each,
                                            .argument = watched->argument & ((1u << POINTER_WORD_SHIFT) - 1)},
                                 .call = around.call,
                                 .owner = around.owner,
                                 .ordinal = around.ordinal,
                                 .argument = watched->argument,
                                 .offset = (int64_t)(begin - watched->pointer),
                                 .bytes = end - first};
    snprintf(found.tensor.text, sizeof(found.tensor.text), "%s", around.name);
    memory_found(&found, begin);
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
compare_around(const struct watched *watched)
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

/* ---- around an operation ---- */

static void
note_owner(void *arg, const struct pointed *pointed)
{
    struct tensor tensor;
    CUdeviceptr next;
    (void)arg;
    if (around.owner == 0 && pointers_annotated(pointed->address, &tensor, &next))
        around.owner = ((uint32_t)tensor.role + 1) << 24 | (uint32_t)tensor.index;
}

static void
note_updated(void *arg, const struct pointed *pointed)
{
    const size_t *updater = arg;
    struct tensor tensor;
    CUdeviceptr next;
    if (!is_parameters_place(*updater, pointed->argument) || !pointers_annotated(pointed->address, &tensor, &next) ||
        tensor.role != TENSOR_PARAMETER)
        return;
    struct updated *known =
        FIND(it, updaters.updated, updaters.updated_count, it->call == around.call && it->tensor.index == tensor.index);
    if (known == NULL) {
        updaters.updated = values_room(updaters.updated, (updaters.updated_count + 1) * sizeof(*updaters.updated));
        known = &updaters.updated[updaters.updated_count++];
        *known = (struct updated){.call = around.call, .tensor = tensor};
    }
    ++known->times;
}

/* Which call of the updater's it is. */
static void
count_call(size_t updater, const struct operation *operation, const struct function_layout *layout)
{
    around.owner = 0;
    pointers_visit(operation, layout, false, note_owner, NULL);
    around.ordinal = find_or_add(&updaters.owners, &updaters.owner_count, updater, around.owner)->times++;
}

/* Where is it now? */
static void
resolve_pointed(void *arg, const struct pointed *pointed)
{
    (void)arg;
    struct check_memory at = {
        .call = around.call, .owner = around.owner, .ordinal = around.ordinal, .argument = pointed->argument};
    memory_resolve(&at, pointed->address);
}

/* Once memory that is known is where this operation has it. */
static void
note_new(void *arg, const struct pointed *pointed)
{
    struct tensor tensor;
    CUdeviceptr next;
    (void)arg;
    if (!pointers_annotated(pointed->address, &tensor, &next) && !memory_has(pointed->address))
        around.has_new = note_pointer(pointed->address)->times++ < LOOKS_AT_MOST || around.has_new;
}

/* Of an updater, in a step behind that in which it was found: what else does it change? */
static bool
looks_at_memory(size_t updater, const struct operation *operation, const struct function_layout *layout)
{
    uint32_t since = updaters.list[updater].since;
    if (values_writer() == NULL || updaters.list[updater].found.type == 0 || updaters.step <= since)
        return false;
    if (updaters.step == since + 1)
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
    around.count = 0;
    size_t updater = updater_of(around.call);
    bool is_old = updater < updaters.count && updaters.list[updater].since < updaters.step;
    around.is_for_updaters = values_writer() != NULL && !is_old;
    if (around.is_for_updaters) {
        if (updater < updaters.count || looks_for_updaters())
            pointers_visit(operation, layout, false, watch_parameter, NULL);
        around.active = around.count > 0;
        return;
    }
    if (updater == updaters.count)
        return;
    count_call(updater, operation, layout);
    pointers_visit(operation, layout, false, note_updated, &updater);
    pointers_visit(operation, layout, false, resolve_pointed, NULL);
    if (looks_at_memory(updater, operation, layout)) {
        int type = updaters.list[updater].found.type;
        context_synchronize("before an operation that updates parameters");
        pointers_visit(operation, layout, false, watch_unannotated, &type);
        around.active = around.count > 0;
    }
}

static void
note_touch(void *arg, const struct pointed *pointed)
{
    const struct operation *operation = arg;
    bool is_source = pointed->argument > 0 && strncmp(operation->name, "cuMemcpy", 8) == 0;
    memory_touched(around.call, pointed->address, is_source ? pointed->bytes : 0);
}

void
updaters_operation_begins(const struct operation *operation)
{
    const struct function_layout *layout;
    around.active = false;
    if (check_run.probes) {
        layout = operation->function != NULL ? function_layout(operation->function) : NULL;
        around.call = layout != NULL ? layout->call : call_identity(operation->name);
        HOLD(&memory_lock);
        pointers_visit(operation, layout, true, note_touch, (void *)operation);
    }
    if (!pointers_may_update(operation, &layout))
        return;
    HOLD(&memory_lock);
    ENTER_CONTEXT();
    begin_operation(operation, layout);
}

void
updaters_operation_ends(bool enqueued)
{
    if (!around.active)
        return;
    around.active = false;
    HOLD(&memory_lock);
    ENTER_CONTEXT();
    if (enqueued)
        context_synchronize("after an operation that may update parameters");
    FOR_EACH(watched, around.watched, around.count) {
        if (enqueued && around.is_for_updaters && parameter_changed(watched))
            note_updater(watched);
        else if (enqueued && !around.is_for_updaters)
            compare_around(watched);
        free(watched->before);
    }
}

/* ---- the run ---- */

void
updaters_open(void)
{
    struct reference_key key = {.kind = REFERENCE_UPDATER};
    struct check_updater found;
    memory_open();
    for (; values_reader() != NULL && values_get(&key, &found, sizeof(found)); ++key.number) {
        if (found.place_count > CHECK_PLACES_AT_MOST)
            values_stop_damaged();
        if (updaters.count < UPDATERS_AT_MOST && updater_of(found.call) == updaters.count)
            updaters.list[updaters.count++].found = found;
    }
}

void
updaters_boundary(uint32_t step)
{
    HOLD(&memory_lock);
    memory_boundary(step);
    updaters.step = step;
    updaters.owner_count = 0;
    FOR_EACH_MUTABLE(it, updaters.updated, updaters.updated_count) {
        it->usual = it->times > it->usual ? it->times : it->usual;
        it->times = 0;
    }
    for (; values_writer() != NULL && step >= 2 && updaters.written < updaters.count; ++updaters.written) {
        const struct check_updater *found = &updaters.list[updaters.written].found;
        values_put(&(struct reference_key){.kind = REFERENCE_UPDATER, .number = (uint32_t)updaters.written}, found,
                   sizeof(*found));
    }
}

/* How often the updater is given one parameter between two boundaries, at most. */
static unsigned
usual_of(uint64_t call)
{
    unsigned usual = 0;
    FOR_EACH(it, updaters.updated, updaters.updated_count)
        usual = it->call == call && it->usual > usual ? it->usual : usual;
    return usual;
}

void
updaters_end(uint32_t step)
{
    enum { TIMES_NEEDED = 3 };
    HOLD(&memory_lock);
    FOR_EACH(it, updaters.updated, updaters.updated_count) {
        unsigned usual = usual_of(it->call);
        bool is_more = usual > 0 && it->times >= TIMES_NEEDED * usual;
        if (values_writer() != NULL && is_more)
            compare_note(CHECK_ROW_AFTER, step, &it->tensor);
    }
}
