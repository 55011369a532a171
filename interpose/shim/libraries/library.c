/*
 * library.c - which function is behind a hook, and how a hooked call of a library is reported to the engine.
 *
 * The real function is what the loader would have bound without us: a caller that was linked gets what its own object
 * would get; a look-up has stored what it found (look_up.c). Called by the hooks; it must never call the public dlsym,
 * nor hold its lock across a call into the loader.
 */
#include "interpose/shim/libraries/library.h"

#include <dlfcn.h>
#include <sched.h>
#include <string.h>

/* What a thunk leaves for the hook that it jumps to. */
__thread void *library_bound __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Guards what is added to the libraries' callers and copies; what is there is read without it. */
static atomic_flag adding = ATOMIC_FLAG_INIT;

/* ---- loaded objects ---- */

/* `name` as the object with this path would get it: from itself, and what it was linked with. */
static void *
look_up_from(const char *path, const char *name)
{
    void *object = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (object == NULL)
        return NULL;
    void *found = shim_real_dlsym(object, name);
    dlclose(object); /* drops only the count that dlopen added */
    return found;
}

static bool
is_own(const struct library *library, const void *found)
{
    for (unsigned i = 0; i < library->function_count; ++i) {
        if (found == library->functions[i].hook)
            return true;
    }
    return false;
}

static void *
search_real(const struct library *library, const char *name, const struct object_search *caller)
{
    void *found = NULL;
    if (caller->path != NULL && caller->path[0] != '\0') /* the program's own name is empty */
        found = look_up_from(caller->path, name);
    if (found == NULL || is_own(library, found))
        found = shim_real_dlsym(RTLD_NEXT, name);
    if (found == NULL) { /* a tail call from an object that we do not see, into a library that is loaded locally */
        struct object_search any = {.file = library->file};
        if (object_find(&any))
            found = look_up_from(any.path, name);
    }
    return found;
}

static void
begin_adding(void)
{
    while (atomic_flag_test_and_set(&adding))
        sched_yield();
}

/* The place of `object` among `objects`, which it joins; `most` when there is no place left. */
static unsigned
place_of_object(struct code_range *objects, _Atomic unsigned *count, unsigned most, struct code_range object)
{
    begin_adding();
    unsigned known = atomic_load(count), at = 0;
    while (at < known && objects[at].begin != object.begin)
        ++at;
    if (at == known && known < most) {
        objects[at] = object;
        atomic_store(count, known + 1);
    }
    atomic_flag_clear(&adding);
    return at;
}

void *
library_real(struct library *library, unsigned index, const void *caller)
{
    void *real = library_bound;
    if (real != NULL) {
        library_bound = NULL;
        return real;
    }
    struct library_reals *reals = &library->reals[index];
    unsigned count = atomic_load_explicit(&library->caller_count, memory_order_acquire);
    for (unsigned i = 0; i < count; ++i) {
        if (!is_inside(&library->callers[i], (uintptr_t)caller))
            continue;
        real = atomic_load_explicit(&reals->of_caller[i], memory_order_relaxed);
        if (real != NULL)
            return real;
        break;
    }

    struct object_search search = {.address = (uintptr_t)caller};
    bool known = object_find(&search);
    real = search_real(library, library->functions[index].name, &search);
    if (real == NULL || !known)
        return real;
    unsigned at = place_of_object(library->callers, &library->caller_count, LIBRARY_CALLERS, search.object);
    if (at < LIBRARY_CALLERS)
        atomic_store(&reals->of_caller[at], real);
    return real;
}

void *
library_helper(struct library *library, const void *real, unsigned number)
{
    unsigned count = atomic_load_explicit(&library->copy_count, memory_order_acquire);
    for (unsigned i = 0; i < count; ++i) {
        if (!is_inside(&library->copies[i], (uintptr_t)real))
            continue;
        void *helper = atomic_load_explicit(&library->helper[i][number], memory_order_relaxed);
        if (helper != NULL)
            return helper;
        break;
    }

    struct object_search search = {.address = (uintptr_t)real};
    if (!object_find(&search))
        return NULL;
    void *helper = look_up_from(search.path, library->helpers[number]);
    unsigned at = place_of_object(library->copies, &library->copy_count, LIBRARY_COPIES, search.object);
    if (helper != NULL && at < LIBRARY_COPIES)
        atomic_store(&library->helper[at][number], helper);
    return helper;
}

/* ---- a call ---- */

void
library_call_init(struct library_call *call, const char *name)
{
    memset(&call->operation, 0, sizeof(call->operation));
    call->operation.name = name;
    call->operation.operands = call->operands;
    call->type = 0;
}

void
library_call_begin(struct library_call *call, const CUstream *stream)
{
    call->operation.opaque = call->operation.opaque || stream == NULL; /* then everything waits for the boundary */
    call->operation.stream = stream != NULL && *stream != NULL ? *stream : CU_STREAM_LEGACY;
    ++shim_depth;
    shim.engine->begin(&call->operation);
}

bool
library_call_end(struct library_call *call, bool enqueued)
{
    shim.engine->end(&call->operation, enqueued);
    if (call->operation.again)
        return true;
    --shim_depth;
    return false;
}

/* NULL: it has no memory, or there is no room for it. */
static struct operand *
new_operand(struct library_call *call, uint32_t argument, const char *name, enum operand_access access, bool is_there)
{
    struct operation *operation = &call->operation;
    uint32_t type = call->type;
    call->type = 0;
    if (!is_there)
        return NULL;
    if (operation->operand_count == LIBRARY_OPERANDS) {
        operation->opaque = true; /* never silently less than the call touches */
        return NULL;
    }
    struct operand *operand = &operation->operands[operation->operand_count++];
    *operand = (struct operand){.argument = argument, .access = access, .name = name, .type = type};
    return operand;
}

/* From the first to the last byte of `count` times `bytes`. */
static size_t
span(size_t bytes, size_t count, size_t stride)
{
    return (count - 1) * stride + bytes;
}

void
library_operand(struct library_call *call, uint32_t argument, const char *name, const void *pointer,
                enum operand_access access, struct extent extent)
{
    struct operand *operand = new_operand(call, argument, name, access, pointer != NULL && extent.bytes > 0);
    if (operand == NULL)
        return;

    CUdeviceptr address = (CUdeviceptr)(uintptr_t)pointer;
    size_t outer_stride = (size_t)extent.outer_stride;
    if (extent.outer_stride < 0) {
        outer_stride = -outer_stride;
        address -= (extent.outer_count - 1) * outer_stride;
    }
    struct pieces pieces = {extent.bytes, extent.inner_count, extent.inner_stride, extent.outer_count, outer_stride};
    size_t block = span(pieces.bytes, pieces.inner_count, pieces.inner_stride);
    if (pieces.inner_stride <= pieces.bytes) {
        pieces.bytes = block;
        pieces.inner_count = 1;
    }
    bool solid = pieces.inner_count == 1 && (pieces.outer_count == 1 || pieces.outer_stride <= block);
    operand->address = address;
    operand->bytes = span(block, pieces.outer_count, pieces.outer_stride);
    if (!solid)
        operand->pieces = pieces;
}

void
library_operand_each(struct library_call *call, uint32_t argument, const char *name, const void *pointers,
                     enum operand_access access, int64_t count)
{
    struct operand *operand = new_operand(call, argument, name, access, pointers != NULL && count > 0);
    if (operand == NULL)
        return;
    operand->address = (CUdeviceptr)(uintptr_t)pointers;
    operand->bytes = (size_t)count * sizeof(CUdeviceptr);
    operand->pointer_count = (size_t)count;
}
