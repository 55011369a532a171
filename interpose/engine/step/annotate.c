/*
 * annotate.c - what an annotation says is looked at, entered into the table (tensors.c), and parameters and states are
 * shared: DDP_PARAMETER, DDP_STATE, DDP_GRADIENT, DDP_BUFFER, DDP_GRADIENT_GROUP, DDP_FORGET.
 *
 * Called by the shim in whichever thread annotates. What cannot be right ends the job, naming the macro and its place:
 * nothing that was annotated is ever left out.
 */
#include "interpose/engine/core/observer.h"
#include "interpose/engine/memory/escapes.h"
#include "interpose/engine/send/send.h"
#include "interpose/engine/step/step.h"
#include "interpose/engine/verify/verify.h"

static const char *const macros[TENSOR_ROLES] = {[TENSOR_PARAMETER] = "DDP_PARAMETER",
                                                 [TENSOR_GRADIENT] = "DDP_GRADIENT",
                                                 [TENSOR_BUFFER] = "DDP_BUFFER",
                                                 [TENSOR_STATE] = "DDP_STATE"};

static int annotated_group; /* what is annotated from here on belong to it; guarded by the engine's lock */

/* An annotation that is being made, for messages: DDP_GRADIENT number 4 (`dw[l]`, 16 float32, train.cu:170). */
#define MADE_FORMAT "%s number %zu (`%s`, %zu %s, %s:%d)"
#define MADE(tensor)                                                                                              \
    macros[(tensor)->role], (tensor)->index + 1, (tensor)->site.text, (tensor)->count, type_name((tensor)->type), \
        (tensor)->site.file, (tensor)->site.line

/* ---- is it memory that can be averaged? ---- */

/* Whether all of it is chunks of virtual memory, each of which is an allocation to the driver. */
static bool
is_mapped(const struct tensor *tensor)
{
    return LOCKED(allocations_cover(tensor->address, tensor->bytes, MEMORY_MAPPED));
}

/* In a world of more than one NCCL will work on it. `context` may be NULL: pooled memory belongs to a device. */
static void
require_primary_context(const struct tensor *tensor, CUcontext context, int device)
{
    static _Atomic(CUcontext) known;
    if (engine_state.alone || context == NULL || context == atomic_load(&known))
        return;
    if (!context_is_primary(context, device))
        stop_job(MADE_FORMAT ": memory of " CONTEXT_FOREIGN, MADE(tensor));
    atomic_store(&known, context);
}

/* Memory of the host says nothing of a device: the one that the thread uses, or will use. */
static void
require_device_in_use(const struct tensor *tensor)
{
    if (engine_state.context != NULL)
        return;
    device_adopt_any();
    require_primary_context(tensor, engine_state.context, engine_state.device);
}

/* Memory of the host that begins with the address of device memory is a pointer: `&g` is annotated, not `g`. */
static void
refuse_address_of_pointer(const struct tensor *tensor)
{
    struct tensor pointer = *tensor;
    CUdeviceptr held;
    pointer.bytes = sizeof(held);
    if (tensor->address % sizeof(held) != 0 || host_memory_readable(&pointer) < sizeof(held))
        return;
    memcpy(&held, (const void *)(uintptr_t)tensor->address, sizeof(held));
    struct memory_facts facts = device_ask_about(held);
    if (device_kind_of(&facts) == MEMORY_HOST)
        return;
    const char *address_of = strchr(tensor->site.text, '&');
    stop_job(MADE_FORMAT
             ": a pointer of the program's to device memory, at %p, not the device memory: did you mean `%s`?",
             MADE(tensor), (void *)(uintptr_t)tensor->address, address_of != NULL ? address_of + 1 : "*pointer");
}

static void
require_host_memory(const struct tensor *tensor)
{
    char file[128];
    refuse_address_of_pointer(tensor);
    size_t there = host_memory_readable(tensor);
    if (there == 0)
        device_refuse_unseen(&tensor->site);
    if (there < tensor->bytes)
        stop_job(MADE_FORMAT ": %p is not device memory, and only %zu of %zu bytes of host memory there can be read; "
                             "annotate memory of cudaMalloc, cudaMallocManaged or malloc",
                 MADE(tensor), (void *)(uintptr_t)tensor->address, there, tensor->bytes);
    if (engine_state.rendezvous.world_size > 1 &&
        mapping_of_file(tensor->address, tensor->address + tensor->bytes, file, sizeof(file)))
        stop_job(MADE_FORMAT ": %p is shared with every process that maps the file %s, perhaps with other ranks: "
                             "annotate private memory (malloc, MAP_PRIVATE)",
                 MADE(tensor), (void *)(uintptr_t)tensor->address, file);
    require_device_in_use(tensor);
}

/* Finds out the kind of its memory. Ends the job if the range is not within one allocation of managed memory, or of
 * device memory of the one device that this rank uses, or several that are one range of virtual memory, or memory of
 * the host's that is this process's own. */
static void
require_memory(struct tensor *tensor)
{
    device_refuse_after_reset(macros[tensor->role], &tensor->site);
    struct memory_facts facts = device_ask_about(tensor->address);
    tensor->kind = device_kind_of(&facts);
    if (tensor->kind == MEMORY_HOST) {
        require_host_memory(tensor);
        return;
    }
    device_refuse_unseen(&tensor->site);
    if (facts.begin != 0 && tensor->bytes > facts.begin + facts.bytes - tensor->address && !is_mapped(tensor))
        stop_job(MADE_FORMAT ": %zu bytes, but the allocation ends after %zu; check count and type", MADE(tensor),
                 tensor->bytes, (size_t)(facts.begin + facts.bytes - tensor->address));

    bool is_first = device_adopt_context(facts.context, facts.device);
    CUcontext context = facts.context;
    if (context == NULL && is_first)
        context = engine_state.context;
    require_primary_context(tensor, context, facts.device);
    if (facts.device != engine_state.device)
        stop_job(MADE_FORMAT ": on device %d, other annotations are on device %d; a rank uses one device", MADE(tensor),
                 facts.device, engine_state.device);
}

/* The count that DDP_WHOLE means: elements up to the end of the allocation. DDP_WHOLE: CUDA knows of none. */
static size_t
count_whole(const void *ptr, int type)
{
    const CUdeviceptr address = (CUdeviceptr)(uintptr_t)ptr;
    const struct memory_facts facts = device_ask_about(address);
    const size_t each = type_bytes(type);
    return facts.begin != 0 && each > 0 ? (size_t)(facts.begin + facts.bytes - address) / each : DDP_WHOLE;
}

static struct tensor
describe_annotation(enum tensor_role role, void *ptr, size_t count, int type, const struct ddp_site *site)
{
    struct tensor tensor = {.role = role,
                            .placed = true,
                            .address = (CUdeviceptr)(uintptr_t)ptr,
                            .count = count,
                            .bytes = count * type_bytes(type),
                            .type = type,
                            .site = *site};
    engine_lock();
    tensor.group = role != TENSOR_BUFFER ? annotated_group : 0;
    tensor.averaged = tensor_will_be_averaged(&tensor);
    tensor.index = tensor_index_for(&tensor);
    engine_unlock();
    if (type_bytes(type) == 0)
        stop_job(MADE_FORMAT ": element type %d is invalid; use DDP_FLOAT32, DDP_FLOAT64, DDP_FLOAT16 or DDP_BFLOAT16",
                 MADE(&tensor), type);
    if (type > DDP_UINT8)
        stop_job(MADE_FORMAT ": only DDP_REDUCE takes elements of type %s", MADE(&tensor), type_name(type));
    bool takes_integers = role == TENSOR_STATE || role == TENSOR_BUFFER;
    if (!takes_integers && !type_is_of_gradients(type))
        stop_job(
            MADE_FORMAT
            ": only DDP_STATE and DDP_BUFFER take elements of type %s; use DDP_FLOAT32, DDP_FLOAT64, DDP_FLOAT16 or "
            "DDP_BFLOAT16",
            MADE(&tensor), type_name(type));
    if (ptr != NULL && count == DDP_WHOLE)
        stop_job("%s of `%s` (%s:%d): the count is DDP_WHOLE, but CUDA has not allocated the memory: say how many "
                 "elements it has",
                 macros[role], site->text, site->file, site->line);
    if (ptr == NULL || count > SIZE_MAX / type_bytes(type))
        stop_job(MADE_FORMAT ": %s", MADE(&tensor),
                 ptr == NULL ? "a null pointer; annotate after the allocation"
                             : "the count of elements is not possible");
    return tensor;
}

/* ---- entering it ---- */

/* Enters it or ends the job. Returns whether anything changed. */
static bool
place_or_stop(struct tensor *tensor)
{
    struct tensor other;
    engine_lock();
    enum tensor_placing placing = tensor_place(tensor, &other);
    if (placing == PLACED_NEW)
        tensor_report_averaged(tensor); /* the launcher asks what became of them */
    engine_unlock();

    require_allocated(placing != PLACED_NO_MEMORY);
    if (placing == PLACED_OVERLAP)
        stop_job(MADE_FORMAT " overlaps " MADE_FORMAT ": bytes %p to %p and %p to %p", MADE(tensor), MADE(&other),
                 (void *)(uintptr_t)tensor->address, (void *)(uintptr_t)(tensor->address + tensor->bytes),
                 (void *)(uintptr_t)other.address, (void *)(uintptr_t)(other.address + other.bytes));
    return placing != PLACED_BEFORE;
}

/* ---- annotations ---- */

/* All ranks take rank 0's values, now. */
static void
share(const struct tensor *tensor)
{
    char place[64];
    /* Whatever initialises it may be on any stream. */
    snprintf(place, sizeof(place), "at a %s", macros[tensor->role]);
    context_synchronize(place);
    snprintf(place, sizeof(place), "%s number %zu", macros[tensor->role], tensor->index + 1);
    agree_on_shared(tensor, place);
    device_ensure_collectives();

    struct comm_error error;
    role_take();
    status_waits_at(place); /* on the host, for all others: a rank may have stopped since they agreed */
    if (!host_memory_broadcast(tensor, &error))
        stop_job_by(error.cause, MADE_FORMAT ": %s", MADE(tensor), error.text);
    status_waits_no_more();
    unaveraged_annotated(tensor);
    role_give();
}

void
tensor_annotate(enum tensor_role role, void *ptr, size_t count, int type, const struct ddp_site *site)
{
    if (count == 0) /* an optional tensor: ranks that have it differ in their next annotation */
        return;
    annotations_drop_forgotten();
    device_ensure_driver(site);
    if (count == DDP_WHOLE)
        count = count_whole(ptr, type);
    struct tensor tensor = describe_annotation(role, ptr, count, type, site);
    flight_note(FLIGHT_ANNOTATION, 0, tensor.bytes, site->text);
    require_memory(&tensor);
    if (role != TENSOR_PARAMETER) /* streams that touch it are remembered */
        device_ensure_events();
    bool changed = place_or_stop(&tensor);
    if (changed && role == TENSOR_PARAMETER)
        OBSERVED(annotated, &tensor);
    if (engine_state.alone || !changed || !tensor_is_compared(&tensor))
        return;
    ENTER_CONTEXT();
    share(&tensor);
}

void
tensor_annotate_parameter(void *ptr, size_t count, int type, const struct ddp_site *site)
{
    tensor_annotate(TENSOR_PARAMETER, ptr, count, type, site);
}

void
tensor_annotate_state(void *ptr, size_t count, int type, const struct ddp_site *site)
{
    tensor_annotate(TENSOR_STATE, ptr, count, type, site);
}

void
tensor_annotate_gradient(void *ptr, size_t count, int type, const struct ddp_site *site)
{
    tensor_annotate(TENSOR_GRADIENT, ptr, count, type, site);
}

/* A copy of what is annotated exactly there; not placed if there is nothing. */
static struct tensor
copy_at(CUdeviceptr address)
{
    engine_lock();
    const struct tensor *found = tensor_at(address);
    struct tensor tensor = found != NULL && found->address == address ? *found : (struct tensor){.placed = false};
    engine_unlock();
    return tensor;
}

/* Whether ranks compare it once more at the end, if no annotation and no step comes after DDP_FORGET. */
static bool
is_compared_at_end(const struct tensor *tensor)
{
    return !engine_state.alone && tensor_is_compared(tensor);
}

void
annotations_drop_forgotten(void)
{
    if (LOCKED(tensor_drop_forgotten()))
        checks_drop_final_hash();
}

void
tensor_forget(void *ptr, const struct ddp_site *site)
{
    (void)site;
    const struct tensor named = copy_at((CUdeviceptr)ptr);
    CUcontext before = context_enter();
    launch_wait_unused();
    if (named.placed && is_compared_at_end(&named) && !context_driver_is_gone()) { /* as before it is freed: unmap.c */
        unaveraged_last_look(named.address, named.address + named.bytes);
        checks_final_hash();
    }
    struct tensor forgotten = {.placed = false};
    engine_lock();
    struct tensor *tensor = tensor_at((CUdeviceptr)ptr);
    if (tensor != NULL && tensor->address == (CUdeviceptr)ptr) {
        forgotten = *tensor;
        if (tensor_is_sent(tensor))
            groups_annotations_changed();
        if (is_compared_at_end(tensor)) {
            tensor_set_forgotten(tensor);
        } else {
            tensor_unplace(tensor);
            tensor_drop(tensor);
            tensor_report_averaged(NULL);
        }
    }
    engine_unlock();
    host_memory_forget(&forgotten);
    context_leave(before);
}

void
tensor_choose_group(int id, const struct ddp_site *site)
{
    if (id < 0 || id >= GROUPS_AT_MOST)
        stop_job("DDP_GRADIENT_GROUP(%d) (%s:%d): groups are numbered 0 to %d", id, site->file, site->line,
                 GROUPS_AT_MOST - 1);
    engine_lock();
    annotated_group = id;
    engine_unlock();
}
