/*
 * operand_resolve.c - which gradients and buffers does an operation name?
 *
 * By its operands, or by every word of a kernel's arguments that may be an address; what was captured into a graph that
 * it launches, touches.c adds. Called by touches.c for every operation that reaches the engine, and by graph_edits.c
 * for work that a graph's node is about to do. Changes nothing but what is known of escaped addresses.
 */
#include "interpose/engine/memory/escapes.h"
#include "interpose/engine/memory/memory.h"

#include "base/message.h"

#include <ctype.h>

/* A struct's words are distinguished from whole arguments by what stands above these bits. */
enum { WORD_SHIFT = 16 };

static bool
may_hit(uint64_t address, size_t bytes)
{
    return address < atomic_load_explicit(&memory_state.highest, memory_order_relaxed) &&
           address + bytes > atomic_load_explicit(&memory_state.lowest, memory_order_relaxed);
}

void
hits_clear(struct hits *hits)
{
    if (hits->items != hits->few)
        free(hits->items);
    hits->items = hits->few;
    hits->capacity = HITS_AT_HAND;
    hits->count = 0;
    free(hits->sources);
    hits->sources = NULL;
    hits->source_count = hits->source_capacity = 0;
}

void
hits_add(struct hits *hits, const struct tensor *tensor, const struct operand *operand)
{
    if (hits->count == hits->capacity) {
        size_t capacity = 4 * hits->capacity;
        struct hit *grown = engine_calloc(capacity, sizeof(*grown));
        memcpy(grown, hits->items, hits->count * sizeof(*grown));
        if (hits->items != hits->few)
            free(hits->items);
        hits->items = grown;
        hits->capacity = capacity;
    }
    hits->items[hits->count++] = (struct hit){.group = &memory_state.groups[tensor->group],
                                              .place = (size_t)(tensor - memory_state.tensors),
                                              .gradient = tensor->member,
                                              .site = tensor->site,
                                              .argument = operand->argument,
                                              .operand_name = operand->name};
    hits->agreements = memory_state.agreements;
}

/* What was added from `first` on are touches that a step cannot do without: see bucketing/history.h. */
static void
fix_touches(struct hits *hits, size_t first)
{
    for (size_t i = first; i < hits->count; ++i)
        hits->items[i].argument |= TOUCH_FIXED;
}

/* Adds every gradient that shares a byte with the operand. */
static void
look_at_operand(struct hits *hits, const struct operand *operand)
{
    if (!may_hit(operand->address, operand->bytes))
        return;
    engine_lock();
    size_t count;
    const struct range *range = ranges_find(&memory_state.ranges, operand->address, operand->bytes, &count);
    for (size_t i = 0; i < count; ++i) {
        const struct tensor *tensor = tensor_of_range(&range[i]);
        bool is_trained = tensor->role == TENSOR_PARAMETER || tensor->role == TENSOR_GRADIENT;
        if ((is_trained && !tensor->averaged) ||
            !operand_reaches(operand, tensor->address, tensor->address + tensor->bytes))
            continue;
        if (tensor->averaged)
            hits_add(hits, tensor, operand);
        else if (tensor->role == TENSOR_STATE)
            hits->on_state = true;
        else
            hits->on_buffer = true;
    }
    engine_unlock();
}

/* What the host has copied there may be overwritten. */
static void
forget_table(uint64_t address, size_t bytes)
{
    engine_lock();
    pointer_arrays_touched(address, bytes);
    engine_unlock();
}

static void
add_source(struct hits *hits, uint64_t address)
{
    hits->sources = engine_grow(hits->sources, hits->source_count, &hits->source_capacity, sizeof(*hits->sources));
    hits->sources[hits->source_count++] = (const void *)(uintptr_t)address;
}

/* Every aligned word of the argument may be a pointer. */
static void
look_at_words(struct hits *hits, uint32_t argument, const void *value, size_t bytes)
{
    for (size_t at = 0; at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, (const char *)value + at, sizeof(word));
        if (bounded_may_hold(&host_accessible, word, 1)) {
            hits->on_host = hits->on_host || host_accessible_has(word, 1);
            host_accessible_look_behind(word);
            if (atomic_load_explicit(&engine_state.captures_open, memory_order_relaxed) > 0)
                add_source(hits, word);
        }
        if (bounded_may_hold(&pointer_arrays, word, 1))
            forget_table(word, 1);
        if (may_hit(word, 1))
            look_at_operand(hits, &(struct operand){.argument = argument | (uint32_t)(at / sizeof(word)) << WORD_SHIFT,
                                                    .address = word,
                                                    .bytes = 1});
    }
}

/* Rank 0 reports it once. */
static void
say_unknown_kernel(const char *kernel)
{
    static _Atomic bool said;
    if (engine_state.rendezvous.rank == 0 && !atomic_exchange(&said, true))
        message_warning(
            "unknown_kernel",
            "the driver does not report the parameters of kernel %s: each launch of it counts as work on every "
            "gradient, and gradients are averaged after the last one of a step; other kernels are followed as before",
            kernel);
}

/* A kernel that may do anything: it counts as a touch of every gradient, and where it writes none late, nothing is
 * wrong. */
static void
look_at_all(struct hits *hits)
{
    engine_lock();
    for (const struct tensor *tensor = NULL; (tensor = tensor_next(tensor)) != NULL;) {
        if (tensor->placed && tensor->averaged)
            hits_add(hits, tensor, &(struct operand){.argument = 0});
    }
    hits->on_buffer = hits->on_state = hits->on_host = true;
    pointer_arrays_touched(0, SIZE_MAX);
    engine_unlock();
}

/* Returns false if the launch's arguments cannot be read. */
static bool
look_at_launch(struct hits *hits, const struct operation *operation)
{
    const struct function_layout *layout = function_layout(operation->function);
    hits->call = layout->call;
    hits->call_name = layout->name;
    if (!layout->known) {
        say_unknown_kernel(layout->name);
        look_at_all(hits);
        return true;
    }
    for (unsigned i = 0; i < layout->param_count; ++i) {
        const void *value = pointers_argument(operation, layout, i);
        if (value == NULL)
            return false;
        look_at_words(hits, i, value, layout->params[i].bytes);
    }
    return true;
}

static bool
is_copy(const struct operation *operation)
{
    static const char begin[] = "cuMemcpy";
    return operation->function == NULL && strncmp(operation->name, begin, sizeof(begin) - 1) == 0;
}

/* The destination is a copy's first argument. */
void
scan_copied_pointers(const struct operation *operation)
{
    if (!is_copy(operation))
        return;
    for (unsigned i = 0; i < operation->operand_count; ++i) {
        const struct operand *operand = &operation->operands[i];
        if ((operand->argument & ((1u << OPERAND_LIST_SHIFT) - 1)) != 0)
            escape_from_anywhere(operand->address, operand->bytes);
    }
    if (operation->host_source == NULL)
        return;
    bool has_addresses = escape_from_host(operation->host_source, operation->host_bytes);
    const struct operand *to = operation->operand_count > 0 ? &operation->operands[0] : NULL;
    if (to == NULL || !(has_addresses || bounded_may_hold(&pointer_arrays, to->address, to->bytes)))
        return;
    engine_lock();
    pointer_arrays_copied(to->address, to->bytes, has_addresses);
    engine_unlock();
}

/* Arrays of pointers: whether the content of this one is unknown. */
static bool
is_unknown_array(const struct operand *operand)
{
    if (host_accessible_has(operand->address, operand->bytes)) {
        (void)host_accessible_look_through(operand->address, operand->bytes);
        return false;
    }
    bool known = LOCKED(pointer_arrays_know(operand->address, operand->bytes));
    return !known;
}

/* Whether the call writes the operand, and does more than scale what is there: it belongs to a backward pass. */
static bool
is_fixed(const struct operation *operation, bool is_library, const struct operand *operand)
{
    if (is_library)
        return operand->access == ACCESS_WRITE && strcasestr(operation->name, "scal") == NULL;
    return (operand->argument & ((1u << OPERAND_LIST_SHIFT) - 1)) == 0; /* copies and memsets write their first */
}

/* Looks at what the call names. Returns whether it goes through pointers: *unknown_p, whether they are unknown. */
static bool
look_at_operands(struct hits *hits, const struct operation *operation, bool *unknown_p)
{
    bool through_pointers = false;
    for (unsigned i = 0; i < operation->operand_count; ++i) {
        const struct operand *operand = &operation->operands[i];
        size_t before = hits->count;
        look_at_operand(hits, operand);
        if (is_fixed(operation, hits->is_library, operand))
            fix_touches(hits, before);
        if (operand->pointer_count > 0) {
            through_pointers = true;
            *unknown_p = is_unknown_array(operand) || *unknown_p;
        } else if (operation->host_source == NULL && operand->access != ACCESS_READ &&
                   bounded_may_hold(&pointer_arrays, operand->address, operand->bytes)) {
            forget_table(operand->address, operand->bytes);
        }
    }
    return through_pointers;
}

/* Said by rank 0, once. */
static void
say_unknown_array(const char *call)
{
    static _Atomic bool said;
    if (engine_state.rendezvous.rank == 0 && !atomic_exchange(&said, true))
        message_warning(
            "unknown_array",
            "%s goes through an array of pointers that a kernel has made: ddprun cannot see which gradients it "
            "touches, and all are averaged at DDP_STEP, without overlap; an array that is copied from the "
            "host can be followed",
            call);
}

static void
look_for_parameter(void *arg, const struct pointed *pointed)
{
    bool *found = arg;
    size_t count;
    engine_lock();
    const struct range *range =
        ranges_find(&memory_state.ranges, pointed->address, pointed->bytes > 0 ? pointed->bytes : 1, &count);
    for (size_t i = 0; i < count; ++i)
        *found = *found || tensor_is_compared(&memory_state.tensors[range[i].id]);
    engine_unlock();
}

/* Whether the operation is given a parameter, or state, as updates are; also where that cannot be seen. Asked where it
 * makes a difference. */
static bool
names_parameter(const struct operation *operation, const struct hits *hits)
{
    bool found = true;
    for (size_t i = 0; i < hits->count; ++i)
        found = found && (hits->items[i].argument & TOUCH_FIXED) != 0;
    if (found)
        return false;
    const struct function_layout *layout = operation->function != NULL ? function_layout(operation->function) : NULL;
    if (layout != NULL && !layout->known)
        return true;
    pointers_visit(operation, layout, true, look_for_parameter, &found);
    return found;
}

bool
hits_look(struct hits *hits, const struct operation *operation, bool *through_pointers_p)
{
    hits_clear(hits);
    hits->call_name = operation->name;
    hits->on_buffer = hits->on_state = hits->on_host = false;
    hits->is_library = strncmp(operation->name, "cu", 2) != 0 || islower((unsigned char)operation->name[2]);
    bool opaque = operation->opaque, unknown = false;
    *through_pointers_p = look_at_operands(hits, operation, &unknown);
    if (unknown) {
        say_unknown_array(operation->name);
        opaque = true;
    }
    if (operation->function != NULL && !look_at_launch(hits, operation))
        opaque = true;
    if (hits->count > 0 && names_parameter(operation, hits))
        fix_touches(hits, 0);
    if (operation->function == NULL && operation->graph == NULL && hits->count > 0)
        hits->call = call_identity(operation->name);
    scan_copied_pointers(operation);
    return opaque;
}
