/*
 * tensors.c - the table of what the trainer has annotated: parameters, gradients, buffers and states, their memory and
 * their identity. What changes it is in placing.c, what annotations say of it in annotate.c, what takes its memory away
 * in unmap.c.
 */
#include "interpose/engine/memory/memory.h"

struct memory_state memory_state = {.lowest = UINT64_MAX, .expected_group = SEQUENCE_NONE};

size_t *
tensor_count_of(enum tensor_role role)
{
    size_t *const counts[TENSOR_ROLES] = {[TENSOR_PARAMETER] = &memory_state.parameter_count,
                                          [TENSOR_GRADIENT] = &memory_state.gradient_count,
                                          [TENSOR_BUFFER] = &memory_state.buffer_count,
                                          [TENSOR_STATE] = &memory_state.state_count};
    return counts[role];
}

const char *
tensor_describe(const struct tensor *tensor, char text[TENSOR_TEXT_BYTES])
{
    size_t count = LOCKED(*tensor_count_of(tensor->role));
    snprintf(text, TENSOR_TEXT_BYTES, "%s %zu of %zu (`%.80s`, %zu %s, %.60s:%d)", tensor_role_name(tensor->role),
             tensor->index + 1, count, tensor->site.text, tensor->count, type_name(tensor->type),
             file_name_of(tensor->site.file), tensor->site.line);
    return text;
}

const char *
tensor_text(const struct tensor *tensor)
{
    static __thread char text[TENSOR_TEXT_BYTES];
    return tensor_describe(tensor, text);
}

const char *
tensor_role_name(enum tensor_role role)
{
    static const char *const names[TENSOR_ROLES] = {[TENSOR_PARAMETER] = "parameter",
                                                    [TENSOR_GRADIENT] = "gradient",
                                                    [TENSOR_BUFFER] = "buffer",
                                                    [TENSOR_STATE] = "state"};
    return names[role];
}

struct tensor *
tensor_find(enum tensor_role role, size_t index)
{
    for (struct tensor *tensor = NULL; (tensor = tensor_next(tensor)) != NULL;) {
        if (tensor->role == role && tensor->index == index)
            return tensor;
    }
    return NULL;
}

void
tensor_refuse_freed(const struct tensor *tensor)
{
    if (!tensor->placed)
        stop_job(
            "%s was freed and not annotated again; annotate it after each allocation, or call DDP_FORGET before it "
            "is freed",
            tensor_text(tensor));
}

void
tensor_refuse_missing(const struct tensor *tensor, const char *what)
{
    stop_job("%s: memory of the host from %p to %p cannot be %s: it was freed, or its protection changed; call "
             "DDP_FORGET before it is freed",
             tensor_text(tensor), (void *)(uintptr_t)tensor->address,
             (void *)(uintptr_t)(tensor->address + tensor->bytes), what);
}

/* What is in its place now would be neither sent from rank 0 nor compared. No group says which parameters are its own:
 * those of one that steps no more went with its gradients, of as many elements. Its states went with gradients, too. */
void
tensor_refuse_freed_parameters(void)
{
    struct tensor freed[TENSOR_ROLES]; /* the first of each role */
    uint64_t elements[TENSOR_ROLES] = {0};
    for (int role = 0; role < TENSOR_ROLES; ++role)
        freed[role] = (struct tensor){.placed = true, .site = {"?", "?", 0}};
    engine_lock();
    for (size_t i = 0; i < engine_state.tensor_count && memory_state.freed_compared_count > 0; ++i) {
        const struct tensor *tensor = &memory_state.tensors[i];
        if (tensor->placed)
            continue;
        if (elements[tensor->role] == 0)
            freed[tensor->role] = *tensor;
        elements[tensor->role] += tensor->count;
    }
    engine_unlock();
    if (elements[TENSOR_PARAMETER] > elements[TENSOR_GRADIENT])
        tensor_refuse_freed(&freed[TENSOR_PARAMETER]);
    if (elements[TENSOR_STATE] > 0 && elements[TENSOR_GRADIENT] == 0)
        tensor_refuse_freed(&freed[TENSOR_STATE]);
}

/* --compress sends 16 bits of each float32; means of float16 are sent as float32. Before NCCL is open all ranks count
 * as having kernels. */
static uint64_t
sent_bytes(const struct tensor *tensor)
{
    struct wire_setting setting = {.divides = engine_state.rendezvous.world_size > 1,
                                   .reduction = engine_state.options.reduction,
                                   .compression = engine_state.options.compression};
    if (atomic_load(&engine_state.collectives_ready))
        setting.divides = engine_state.collectives.setting.divides;
    return wire_sent_bytes(&setting, type_nccl(tensor->type), tensor->bytes);
}

void
tensor_report_averaged(const struct tensor *added)
{
    static struct {
        uint64_t count, parameters, states, bytes;
    } sum GUARDED_BY(engine_mutex);
    const struct tensor *first = added != NULL ? added : memory_state.tensors;
    size_t looked_at = added != NULL ? 1 : engine_state.tensor_count;
    if (added == NULL)
        memset(&sum, 0, sizeof(sum));
    for (const struct tensor *tensor = first; tensor < first + looked_at; ++tensor) {
        sum.count += tensor->averaged;
        sum.parameters += tensor->averaged && tensor->role == TENSOR_PARAMETER;
        sum.states += tensor->averaged && tensor->role == TENSOR_STATE;
        sum.bytes += tensor->averaged ? sent_bytes(tensor) : 0;
    }
    atomic_store(&engine_state.status->gradient_count, sum.count);
    atomic_store(&engine_state.status->averaged_parameter_count, sum.parameters);
    atomic_store(&engine_state.status->averaged_state_count, sum.states);
    atomic_store(&engine_state.status->gradient_bytes, sum.bytes);
}

struct tensor *
tensor_at(CUdeviceptr address)
{
    size_t count;
    const struct range *range = ranges_find(&memory_state.ranges, address, 1, &count);
    return range != NULL ? tensor_of_range(range) : NULL;
}

size_t
tensor_compared_count(void)
{
    return LOCKED(memory_state.parameter_count + memory_state.state_count);
}

bool
tensor_compares_host(void)
{
    bool found = false;
    engine_lock();
    for (size_t i = 0; i < engine_state.tensor_count && !found; ++i)
        found = tensor_is_compared(&memory_state.tensors[i]) && memory_state.tensors[i].kind == MEMORY_HOST;
    engine_unlock();
    return found;
}

bool
tensor_any_on_device(void)
{
    bool found = false;
    engine_lock();
    for (const struct tensor *tensor = tensor_next(NULL); tensor != NULL && !found; tensor = tensor_next(tensor))
        found = tensor->kind != MEMORY_HOST;
    engine_unlock();
    return found;
}

const struct tensor *
tensor_compared(size_t index)
{
    size_t *next = &memory_state.compared_index, *at = &memory_state.compared_at; /* callers ask in order */
    if (index < *next)
        *next = *at = 0;
    for (; *at < engine_state.tensor_count; ++*at) {
        const struct tensor *tensor = &memory_state.tensors[*at];
        if (tensor_is_compared(tensor) && (*next)++ == index) {
            --*next;
            return tensor;
        }
    }
    return NULL;
}

struct tensor
tensor_copy_compared(size_t index)
{
    engine_lock();
    const struct tensor *found = tensor_compared(index);
    struct tensor tensor = found != NULL ? *found : (struct tensor){.role = TENSOR_PARAMETER, .site = {"?", "?", 0}};
    engine_unlock();
    return tensor;
}
