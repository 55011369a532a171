/*
 * memory.c - memory that is annotated as nothing and that updates write: momentum, and tensors that were forgotten
 * (check.h).
 *
 * The run that writes the reference finds it. In the second step every operation that gets a pointer into a parameter
 * is looked at: does it change the parameter? Functions that do are updaters. In the third step, each operation of an
 * updater is looked at: which bytes of unannotated memory, behind its pointers, does it change? Such a range is known
 * in all runs by the function, how often the function was called before in the step, the argument, and the distance
 * from where the argument points. From the third boundary on its sketches (base/check/sketch.h) are kept, and compared.
 *
 * A range that each step overwrites without reading holds nothing of the step before, and differs between one rank and
 * many where it depends on the batch. The launcher finds out which ranges these are, where any differ, by a run that
 * changes them before the last step: of a change to something that lasts, most is still there afterwards.
 *
 * What is captured is not looked at. Operations of several threads are looked at one after the other.
 */
#include "interpose/engine/check/check.h"

#include "base/check/element.h"
#include "base/check/reference.h"
#include "base/check/sketch.h"
#include "interpose/engine/tensors.h"

#include <stdlib.h>
#include <string.h>

enum {
    UPDATERS_AT_MOST = 64,
    PLACES_AT_MOST = 4,
    RANGES_AT_MOST = 4096,
    WATCHED_AT_MOST = 8, /* segments of one operation */
    PROBE_BYTES = 4096,  /* of a parameter, at most PROBES times, to see whether it changes */
    PROBES = 16,
    WORD_SHIFT = 16, /* of a word's place in a struct, beside its argument's */
    FIRST_STEP = 3,  /* whose beginning finds the ranges known */
};

/* A pointer that an operation of this thread was given. */
struct pointed {
    uint32_t argument;
    CUdeviceptr address;
    size_t bytes; /* 0: not known */
};

/* Memory that is looked at around an operation. */
struct watched {
    uint32_t argument;
    CUdeviceptr pointer, begin;
    size_t bytes;
    char *before;
    int type;
};

struct range_found {
    struct check_memory memory;
    CUdeviceptr address; /* in this step; 0: its operation has not come */
};

/* A pointer that a function was given. */
struct given {
    uint64_t call;
    CUdeviceptr address;
};

static struct {
    pthread_mutex_t lock; /* guards what follows; held across calls of the driver, and by nothing that they wait for */
    uint32_t step;        /* boundaries so far */
    struct {
        uint64_t call;
        int type;                        /* of the parameters that it updates */
        uint32_t places[PLACES_AT_MOST]; /* [place_count]: arguments in which it gets them */
        size_t place_count;
        uint32_t ordinal; /* calls in this step */
    } updaters[UPDATERS_AT_MOST];
    size_t updater_count;
    struct range_found *ranges;
    size_t range_count;
    struct given
        *pointers; /* [pointer_count]: in the second step, by any function; an updater's say where ranges end */
    size_t pointer_count, pointer_capacity;
    struct sketch *changes; /* [probed_count]: what was added to ranges that are probed */
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* What the current operation of this thread was given, from before it to after it. */
static __thread struct {
    bool active;
    struct watched watched[WATCHED_AT_MOST];
    size_t count;
    uint64_t call;
    const char *name;
    uint32_t ordinal;
} around;

static bool
finds(void)
{
    return values_writer() != NULL;
}

/* ---- what an operation points to ---- */

typedef void (*pointed_fn)(void *arg, const struct pointed *pointed);

static void
visit_words(uint32_t argument, const void *value, size_t bytes, pointed_fn visit, void *arg)
{
    for (size_t at = 0; at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, (const char *)value + at, sizeof(word));
        if (word >= 4096)
            visit(arg, &(struct pointed){argument | (uint32_t)(at / sizeof(word)) << WORD_SHIFT, word, 0});
    }
}

/* Hands over every pointer that the operation names. */
static void
visit_pointers(const struct operation *operation, const struct function_layout *layout, pointed_fn visit, void *arg)
{
    for (unsigned i = 0; i < operation->operand_count; ++i) {
        const struct operand *operand = &operation->operands[i];
        if (operand->access != ACCESS_READ && operand->pointer_count == 0)
            visit(arg, &(struct pointed){operand->argument, operand->address, operand->bytes});
    }
    for (unsigned i = 0; layout != NULL && operation->params != NULL && i < layout->param_count; ++i)
        visit_words(i, operation->params[i], layout->params[i].bytes, visit, arg);
}

/* A launch, or a call of a library: copies and memsets bring data, they update nothing. */
static bool
may_update(const struct operation *operation, const struct function_layout **layout_p)
{
    *layout_p = NULL;
    if (operation->graph != NULL || atomic_load(&engine_state.captures_open) > 0 ||
        stream_is_captured(operation->stream))
        return false;
    if (operation->function == NULL)
        return strncmp(operation->name, "cuMem", 5) != 0;
    *layout_p = function_layout(operation->function);
    return (*layout_p)->known;
}

static size_t
updater_of(uint64_t call)
{
    size_t i = 0;
    while (i < memory.updater_count && memory.updaters[i].call != call)
        ++i;
    return i;
}

/* ---- the second step: which functions change parameters? ---- */

/* The annotated range that holds the address, or the next one behind it in *next_p. */
static bool
annotated_at(CUdeviceptr address, struct tensor *tensor_p, CUdeviceptr *next_p)
{
    bool found = false;
    *next_p = UINT64_MAX;
    pthread_mutex_lock(&engine_state.lock);
    for (size_t i = 0; i < engine_state.ranges.count; ++i) {
        const struct range *range = &engine_state.ranges.sorted[i];
        if (range->begin > address) {
            *next_p = range->begin;
            break;
        }
        if (address < range->end) {
            *tensor_p = engine_state.tensors[range->id];
            found = true;
        }
    }
    pthread_mutex_unlock(&engine_state.lock);
    return found;
}

/* Reads some of the parameter into bytes[PROBES * PROBE_BYTES]; returns how much. */
static size_t
probe(const struct watched *watched, char *bytes)
{
    if (watched->bytes <= (size_t)PROBES * PROBE_BYTES) {
        values_copy_out(bytes, watched->begin, watched->bytes);
        return watched->bytes;
    }
    for (size_t i = 0; i < PROBES; ++i)
        values_copy_out(bytes + i * PROBE_BYTES, watched->begin + watched->bytes / PROBES * i, PROBE_BYTES);
    return (size_t)PROBES * PROBE_BYTES;
}

static void
add_pointer(CUdeviceptr address)
{
    if (memory.pointer_count == memory.pointer_capacity) {
        size_t capacity = memory.pointer_capacity == 0 ? 1024 : 2 * memory.pointer_capacity;
        struct given *grown = realloc(memory.pointers, capacity * sizeof(*grown));
        if (grown == NULL)
            stop_job("out of memory");
        memory.pointers = grown;
        memory.pointer_capacity = capacity;
    }
    memory.pointers[memory.pointer_count++] = (struct given){around.call, address};
}

static void
watch_parameter(void *arg, const struct pointed *pointed)
{
    struct tensor tensor;
    CUdeviceptr next;
    (void)arg;
    if (tensor_ask_driver(pointed->address).type != CU_MEMORYTYPE_DEVICE)
        return;
    add_pointer(pointed->address);
    if (around.count == WATCHED_AT_MOST || !annotated_at(pointed->address, &tensor, &next) ||
        tensor.role != TENSOR_PARAMETER)
        return;
    struct watched *watched = &around.watched[around.count];
    *watched = (struct watched){.argument = pointed->argument,
                                .begin = tensor.address,
                                .bytes = tensor.bytes,
                                .type = tensor.type,
                                .before = malloc((size_t)PROBES * PROBE_BYTES)};
    if (watched->before == NULL)
        stop_job("out of memory");
    (void)probe(watched, watched->before);
    ++around.count;
}

static bool
parameter_changed(const struct watched *watched)
{
    char *after = malloc((size_t)PROBES * PROBE_BYTES);
    if (after == NULL)
        stop_job("out of memory");
    size_t bytes = probe(watched, after);
    bool changed = memcmp(watched->before, after, bytes) != 0;
    free(after);
    return changed;
}

/* Whether the updater was seen to change a parameter that it got in this place. */
static bool
is_parameters_place(size_t updater, uint32_t argument)
{
    for (size_t i = 0; i < memory.updaters[updater].place_count; ++i) {
        if (memory.updaters[updater].places[i] == argument)
            return true;
    }
    return false;
}

static void
note_updater(const struct watched *watched)
{
    size_t updater = updater_of(around.call);
    if (updater == UPDATERS_AT_MOST)
        return;
    if (updater == memory.updater_count) {
        memory.updaters[memory.updater_count].call = around.call;
        memory.updaters[memory.updater_count++].type = watched->type;
    }
    size_t *count = &memory.updaters[updater].place_count;
    if (*count < PLACES_AT_MOST && !is_parameters_place(updater, watched->argument))
        memory.updaters[updater].places[(*count)++] = watched->argument;
}

/* ---- the third step: what else do they change? ---- */

/* How far behind `begin` an updater may write that was given this pointer; `known` 0: not known. */
static size_t
bytes_behind(CUdeviceptr begin, size_t known)
{
    struct memory_facts facts = tensor_ask_driver(begin);
    if (facts.type != CU_MEMORYTYPE_DEVICE || facts.is_managed || facts.begin == 0)
        return 0;
    CUdeviceptr end = facts.begin + facts.bytes;
    for (size_t i = 0; known == 0 && i < memory.pointer_count; ++i) {
        const struct given *given = &memory.pointers[i];
        if (given->address > begin && given->address < end && updater_of(given->call) < memory.updater_count)
            end = given->address;
    }
    if (known > 0 && begin + known < end)
        end = begin + known;
    size_t all = 4096; /* no more than twice what is annotated: a pool may hold anything behind it */
    pthread_mutex_lock(&engine_state.lock);
    for (size_t i = 0; i < engine_state.tensor_count; ++i)
        all += engine_state.tensors[i].role == TENSOR_PARAMETER ? 2 * engine_state.tensors[i].bytes : 0;
    pthread_mutex_unlock(&engine_state.lock);
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
    bool annotated = annotated_at(begin, &tensor, &next);
    size_t bytes = bytes_behind(begin, pointed->bytes);
    if (annotated && begin + bytes <= tensor.address + tensor.bytes) /* else it may say too little */
        return;
    int of_type = annotated && tensor.role == TENSOR_PARAMETER ? tensor.type : *type;
    if (bytes < element_bytes(of_type) || begin % element_bytes(of_type) != 0)
        return;
    struct watched *watched = &around.watched[around.count];
    *watched = (struct watched){.argument = pointed->argument,
                                .pointer = pointed->address,
                                .begin = begin,
                                .bytes = bytes,
                                .type = of_type,
                                .before = malloc(bytes)};
    if (watched->before == NULL)
        stop_job("out of memory");
    values_copy_out(watched->before, begin, bytes);
    ++around.count;
}

static bool
is_known(CUdeviceptr begin, size_t bytes)
{
    for (size_t i = 0; i < memory.range_count; ++i) {
        const struct range_found *range = &memory.ranges[i];
        if (begin < range->address + range->memory.bytes && range->address < begin + bytes)
            return true;
    }
    return false;
}

static void
add_range(const struct watched *watched, size_t first, size_t end)
{
    size_t each = element_bytes(watched->type);
    first -= first % each;
    end += (each - end % each) % each;
    end = end > watched->bytes ? watched->bytes - watched->bytes % each : end;
    CUdeviceptr begin = watched->begin + first;
    if (end <= first || memory.range_count == RANGES_AT_MOST || is_known(begin, end - first))
        return;
    struct range_found *grown = realloc(memory.ranges, (memory.range_count + 1) * sizeof(*grown));
    if (grown == NULL)
        stop_job("out of memory");
    memory.ranges = grown;
    struct range_found *range = &memory.ranges[memory.range_count];
    *range = (struct range_found){
        .address = begin,
        .memory = {.tensor = {.role = CHECK_MEMORY,
                              .number = (uint32_t)memory.range_count,
                              .group = is_parameters_place(updater_of(around.call), watched->argument),
                              .type = (uint32_t)watched->type,
                              .count = (end - first) / each,
                              .argument = watched->argument & ((1u << WORD_SHIFT) - 1)},
                   .call = around.call,
                   .ordinal = around.ordinal,
                   .argument = watched->argument,
                   .offset = (int64_t)(begin - watched->pointer),
                   .bytes = end - first}};
    struct check_tensor *tensor = &range->memory.tensor;
    strncpy(tensor->text, around.name, sizeof(tensor->text) - 1);
    ++memory.range_count;

    struct reference_key key = {.kind = REFERENCE_MEMORY, .number = tensor->number};
    if (!reference_put(values_writer(), &key, &range->memory, sizeof(range->memory)))
        values_stop_writing();
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
        add_range(watched, first, end);
}

static void
compare_around(const struct watched *watched)
{
    char *after = malloc(watched->bytes);
    if (after == NULL)
        stop_job("out of memory");
    values_copy_out(after, watched->begin, watched->bytes);
    for (size_t at = 0; at < watched->bytes;) {
        struct tensor tensor;
        CUdeviceptr next;
        if (annotated_at(watched->begin + at, &tensor, &next)) {
            at = tensor.address + tensor.bytes - watched->begin;
            continue;
        }
        size_t gap = next - watched->begin < watched->bytes ? next - watched->begin : watched->bytes;
        compare_gap(watched, after, at, gap);
        at = gap;
    }
    free(after);
}

/* ---- other runs, and later steps: where is it now? ---- */

static void
resolve(void *arg, const struct pointed *pointed)
{
    (void)arg;
    for (size_t i = 0; i < memory.range_count; ++i) {
        struct range_found *range = &memory.ranges[i];
        if (range->memory.call == around.call && range->memory.ordinal == around.ordinal &&
            range->memory.argument == pointed->argument)
            range->address = (CUdeviceptr)((int64_t)pointed->address + range->memory.offset);
    }
}

/* ---- around an operation ---- */

static void
begin_operation(const struct operation *operation, const struct function_layout *layout)
{
    around.name = layout != NULL ? layout->name : operation->name;
    around.call = layout != NULL ? layout->call : call_identity(operation->name);
    around.count = 0;
    if (finds() && memory.step == 1) {
        context_synchronize("before an operation that may update parameters");
        visit_pointers(operation, layout, watch_parameter, NULL);
        around.active = around.count > 0;
        return;
    }
    size_t updater = updater_of(around.call);
    if (updater == memory.updater_count)
        return;
    around.ordinal = memory.updaters[updater].ordinal++;
    if (finds() && memory.step == 2) {
        context_synchronize("before an operation that updates parameters");
        visit_pointers(operation, layout, watch_unannotated, &memory.updaters[updater].type);
        around.active = around.count > 0;
    } else {
        visit_pointers(operation, layout, resolve, NULL);
    }
}

void
memory_operation_begins(const struct operation *operation)
{
    const struct function_layout *layout;
    around.active = false;
    if (!may_update(operation, &layout))
        return;
    pthread_mutex_lock(&memory.lock);
    CUcontext before = context_enter();
    begin_operation(operation, layout);
    context_leave(before);
    pthread_mutex_unlock(&memory.lock);
}

void
memory_operation_ends(const struct operation *operation)
{
    (void)operation;
    if (!around.active)
        return;
    around.active = false;
    pthread_mutex_lock(&memory.lock);
    CUcontext before = context_enter();
    context_synchronize("after an operation that may update parameters");
    for (size_t i = 0; i < around.count; ++i) {
        const struct watched *watched = &around.watched[i];
        if (memory.step == 1 && parameter_changed(watched))
            note_updater(watched);
        else if (memory.step == 2)
            compare_around(watched);
        free(watched->before);
    }
    context_leave(before);
    pthread_mutex_unlock(&memory.lock);
}

/* ---- at boundaries ---- */

static void
take_sketch(void *arg, const void *piece, size_t bytes)
{
    struct {
        struct sketch *sketch;
        int type;
    } *take = arg;
    sketch_add(take->sketch, take->type, piece, bytes / element_bytes(take->type));
}

/* False: it is not where it was, or nothing of the kind. */
static bool
sketch_range(const struct range_found *range, struct sketch *sketch)
{
    struct memory_facts facts = range->address != 0 ? tensor_ask_driver(range->address) : (struct memory_facts){0};
    if (facts.type != CU_MEMORYTYPE_DEVICE || facts.begin + facts.bytes < range->address + range->memory.bytes)
        return false;
    struct {
        struct sketch *sketch;
        int type;
    } take = {sketch, (int)range->memory.tensor.type};
    sketch_begin(sketch, range->memory.tensor.count);
    values_read(range->address, range->memory.bytes, take_sketch, &take);
    return true;
}

/* The place of a range among those that are probed, or probed_count. */
static uint32_t
probed_place(uint32_t number)
{
    uint32_t i = 0;
    while (check_run.probes && i < check_run.probed_count && check_run.probed[i] != number)
        ++i;
    return check_run.probes ? i : check_run.probed_count;
}

/* Adds a hundredth of each element, up or down, to it; keeps a sketch of that. */
static void
change_range(const struct range_found *range, struct sketch *change)
{
    int type = (int)range->memory.tensor.type;
    size_t count = range->memory.tensor.count;
    unsigned fraction_bits = type == ELEMENT_FLOAT64 ? 52 : type == ELEMENT_FLOAT32 ? 23 : 10;
    char *old = malloc(range->memory.bytes), *new = malloc(range->memory.bytes);
    double *moved = malloc(count * sizeof(*moved));
    if (old == NULL || new == NULL || moved == NULL)
        stop_job("out of memory");
    values_copy_out(old, range->address, range->memory.bytes);
    memcpy(new, old, range->memory.bytes);
    unsigned units = fraction_bits > 31 ? 1u << 30 : 1u << (fraction_bits - (fraction_bits > 7 ? 7 : 3));
    element_perturb(type, new, count, 0, type == ELEMENT_BFLOAT16 ? 2 : units);
    for (size_t i = 0; i < count; ++i)
        moved[i] = element_get(type, new, i) - element_get(type, old, i);
    sketch_begin(change, count);
    sketch_add(change, ELEMENT_FLOAT64, moved, count);
    values_copy_in(range->address, new, range->memory.bytes);
    free(old);
    free(new);
    free(moved);
}

static void
compare_range(const struct range_found *range, uint32_t step)
{
    struct sketch *own = malloc(2 * sizeof(*own)), *theirs = own + 1;
    struct reference_key key = {
        .kind = REFERENCE_SKETCH, .role = CHECK_MEMORY, .step = step, .number = range->memory.tensor.number};
    const struct reference_entry *entry = reference_find(values_reader(), &key);
    if (own == NULL)
        stop_job("out of memory");
    if (entry != NULL && sketch_range(range, own)) {
        if (!reference_get(values_reader(), entry, theirs, sizeof(*theirs)))
            values_stop_damaged();
        struct sketch_distance distance = sketch_compare(own, theirs);
        struct check_row row = {.kind = CHECK_ROW_TENSOR,
                                .step = step,
                                .tensor = range->memory.tensor,
                                .norms = {.difference = distance.difference,
                                          .reference = distance.reference,
                                          .unbounded = own->unbounded != theirs->unbounded},
                                .sampled = own->count > SKETCH_COUNTERS,
                                .same_bits = memcmp(own, theirs, sizeof(*own)) == 0};
        values_row(&row);
        uint32_t place = probed_place(range->memory.tensor.number);
        if (place < check_run.probed_count && step == check_run.steps + 1) {
            row.kind = CHECK_ROW_RETAINED;
            row.norms.product = sketch_retained(own, theirs, &memory.changes[place]);
            values_row(&row);
        }
    }
    free(own);
}

static void
write_range(const struct range_found *range, uint32_t step)
{
    struct sketch *own = malloc(sizeof(*own));
    struct reference_key key = {
        .kind = REFERENCE_SKETCH, .role = CHECK_MEMORY, .step = step, .number = range->memory.tensor.number};
    if (own == NULL)
        stop_job("out of memory");
    if (sketch_range(range, own) && !reference_put(values_writer(), &key, own, sizeof(*own)))
        values_stop_writing();
    free(own);
}

void
memory_boundary(uint32_t step)
{
    pthread_mutex_lock(&memory.lock);
    memory.step = step;
    for (size_t i = 0; i < memory.range_count; ++i) {
        const struct range_found *range = &memory.ranges[i];
        uint32_t place = probed_place(range->memory.tensor.number);
        if (step >= FIRST_STEP && values_writer() != NULL)
            write_range(range, step);
        else if (step >= FIRST_STEP && values_reader() != NULL)
            compare_range(range, step);
        if (step == check_run.steps && place < check_run.probed_count && range->address != 0)
            change_range(range, &memory.changes[place]);
    }
    for (size_t i = 0; i < memory.range_count && !finds(); ++i)
        memory.ranges[i].address = 0;
    for (size_t i = 0; i < memory.updater_count; ++i)
        memory.updaters[i].ordinal = 0;
    pthread_mutex_unlock(&memory.lock);
}

/* What the reference says: where ranges are. */
static void
load_ranges(struct reference_reader *reader)
{
    struct reference_key key = {.kind = REFERENCE_MEMORY};
    const struct reference_entry *entry;
    for (; (entry = reference_find(reader, &key)) != NULL && key.number < RANGES_AT_MOST; ++key.number) {
        struct range_found *grown = realloc(memory.ranges, (memory.range_count + 1) * sizeof(*grown));
        if (grown == NULL)
            stop_job("out of memory");
        memory.ranges = grown;
        struct range_found *range = &memory.ranges[memory.range_count++];
        *range = (struct range_found){.address = 0};
        if (!reference_get(reader, entry, &range->memory, sizeof(range->memory)) ||
            element_bytes((int)range->memory.tensor.type) == 0)
            values_stop_damaged();
        size_t updater = updater_of(range->memory.call);
        if (updater == memory.updater_count && updater < UPDATERS_AT_MOST)
            memory.updaters[memory.updater_count++].call = range->memory.call;
    }
}

void
memory_open(void)
{
    if (values_reader() != NULL)
        load_ranges(values_reader());
    memory.changes = calloc(check_run.probed_count + 1, sizeof(*memory.changes));
    if (memory.changes == NULL)
        stop_job("out of memory");
}
