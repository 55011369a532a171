/*
 * turn_work.c - which operations a region of turns leaves out.
 *
 * Left out is work that the device does on data of the batch. The rules, each by what the operation names:
 *
 *     a copy from or to the host, or from managed memory   runs: a loader may bring the next batch meanwhile
 *     what is captured into a graph                        runs: it becomes a node, and does nothing yet
 *     what writes only memory that is new in the region    runs: an update may make its state at any batch
 *     other launches, graphs, library calls, memsets, copies     left out
 *
 * Memory is new if the region's thread has allocated it since the region began. A kernel is taken to write wherever its
 * arguments point. Once work on new memory is left out, a kernel may find there what makes it fail: kernels on that
 * memory are left out from then on. Called by touches.c for each operation, and by turns.c, which has the rounds.
 */
#include "interpose/engine/core/core.h"
#include "interpose/engine/step/step.h"
#include "interpose/engine/step/turns.h"

#include <ctype.h>

/* The open region of the process: its thread writes it. */
static struct turn_region open_region;
_Atomic bool turn_any_open;
static __thread bool is_mine; /* it is this thread's */
static __thread bool leaves_out;

/* Memory that is new in the open region. */
struct fresh {
    uint64_t begin, end;
    bool is_unknown; /* work on it was left out */
};

/* The region's thread's. */
static __thread struct fresh *fresh; /* [fresh_count] */
static __thread size_t fresh_count, fresh_capacity;
static __thread bool host_is_source; /* the operation that follows copies from the host */
static __thread uint64_t launches_before;

/* ---- the open region ---- */

bool
turn_is_open(void)
{
    return atomic_load(&turn_any_open);
}

const struct turn_region *
turn_region(void)
{
    if (!atomic_load_explicit(&turn_any_open, memory_order_relaxed) || !is_mine)
        return NULL;
    return &open_region;
}

struct ddp_site
turn_open_site(void)
{
    return open_region.site;
}

/* Whether some work of the region is, or will be, left out. */
static bool
is_shared_out(void)
{
    const struct turn_region *region = turn_region();
    return region != NULL && !region->is_everyones;
}

static void
count(_Atomic uint64_t *figure, uint64_t operations)
{
    if (is_shared_out())
        atomic_fetch_add_explicit(figure, operations, memory_order_relaxed);
}

/* Launches that touch no gradient reach the engine only while something is left out. */
static uint64_t
unseen_launches(void)
{
    return __atomic_load_n(&engine_state.services->launches->count, __ATOMIC_RELAXED);
}

void
turn_open(const struct turn_region *region)
{
    ASSERT(!turn_is_open());
    open_region = *region;
    is_mine = true;
    atomic_store(&turn_any_open, true);
    fresh_count = 0;
    launches_before = unseen_launches();
}

void
turn_leave_out(bool leave_out)
{
    ASSERT(is_mine);
    if (leaves_out != leave_out)
        functions_report_each(REPORT_TURNS, leave_out);
    leaves_out = leave_out;
}

void
turn_close(void)
{
    turn_leave_out(false);
    count(&engine_state.status->turn_operations, unseen_launches() - launches_before);
    fresh_count = 0;
    atomic_store(&turn_any_open, false);
    is_mine = false;
}

/* ---- new memory ---- */

void
turn_allocated(const CUdeviceptr *address, size_t bytes)
{
    if (!is_shared_out() || address == NULL || *address == 0)
        return;
    if (bytes == 0) {
        struct memory_facts facts = device_ask_about(*address);
        bytes = facts.begin + facts.bytes - *address;
    }
    fresh = engine_grow(fresh, fresh_count, &fresh_capacity, sizeof(*fresh));
    fresh[fresh_count++] = (struct fresh){*address, *address + bytes, false};
}

void
turn_released(CUdeviceptr address, size_t bytes)
{
    const uint64_t end = address + (bytes > 0 ? bytes : 1);
    size_t kept = 0;
    for (size_t i = 0; i < fresh_count; ++i) {
        if (fresh[i].end <= address || fresh[i].begin >= end)
            fresh[kept++] = fresh[i];
    }
    fresh_count = kept;
}

static struct fresh *
fresh_at(uint64_t address)
{
    for (size_t i = 0; i < fresh_count; ++i) {
        if (address >= fresh[i].begin && address < fresh[i].end)
            return &fresh[i];
    }
    return NULL;
}

/* ---- what an operation is ---- */

static bool
begins_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool
is_of_library(const struct operation *operation)
{
    const char *name = operation->name;
    return !begins_with(name, "cu") || islower((unsigned char)name[2]);
}

static bool
is_copy(const struct operation *operation)
{
    return operation->function == NULL && begins_with(operation->name, "cuMemcpy");
}

static bool
is_target(const struct operand *operand)
{
    return (operand->argument & UINT16_MAX) == 0;
}

/* Whether the host may have written what is there, or reads it. */
static bool
is_hosts(CUdeviceptr address)
{
    const struct memory_facts facts = device_ask_about(address);
    return device_kind_of(&facts) != MEMORY_DEVICE;
}

static bool
goes_to_host(const struct operation *operation)
{
    if (begins_with(operation->name, "cuMemcpyDtoH"))
        return true;
    for (unsigned i = 0; i < operation->operand_count; ++i) {
        const struct memory_facts facts = device_ask_about(operation->operands[i].address);
        if (is_target(&operation->operands[i]) && device_kind_of(&facts) == MEMORY_HOST)
            return true;
    }
    return false;
}

static bool
comes_from_host(const struct operation *operation)
{
    if (operation->host_source != NULL || host_is_source || begins_with(operation->name, "cuMemcpyHtoD"))
        return true;
    for (unsigned i = 0; i < operation->operand_count; ++i) {
        if (!is_target(&operation->operands[i]) && is_hosts(operation->operands[i].address))
            return true;
    }
    return false;
}

/* Whether the device does it on data, and not the host with the device. */
static bool
is_device_work(const struct operation *operation)
{
    if (operation->function != NULL || operation->graph != NULL)
        return true;
    if (is_copy(operation))
        return !comes_from_host(operation) && !goes_to_host(operation);
    return is_of_library(operation) || begins_with(operation->name, "cuMemset");
}

static bool
is_captured(const struct operation *operation)
{
    return atomic_load_explicit(&engine_state.captures_open, memory_order_relaxed) > 0 &&
           stream_is_captured(operation->stream);
}

/* NCCL's, where its launches pass the hooks. */
static bool
is_engines(const struct operation *operation)
{
    return atomic_load_explicit(&engine_state.collectives_ready, memory_order_acquire) &&
           (collectives_own_stream(&engine_state.collectives, operation->stream) ||
            capture_own_stream(operation->stream));
}

/* ---- does it write new memory only? ---- */

/* Of the memory that an operation names. */
struct named {
    bool any_fresh, any_other;
};

static void
note_address(struct named *named, CUdeviceptr address, bool may_be_number)
{
    const struct fresh *found = fresh_at(address);
    if (found != NULL && !found->is_unknown)
        named->any_fresh = true;
    else if (found != NULL || !may_be_number || device_ask_about(address).type != 0)
        named->any_other = true;
}

static void
note_word(void *arg, const struct pointed *pointed)
{
    note_address(arg, pointed->address, true);
}

static void
name_words(const struct operation *operation, struct named *named)
{
    const struct function_layout *layout = function_layout(operation->function);
    if (layout->known)
        pointers_visit(operation, layout, true, note_word, named);
}

/* Of copies and memsets the target, of library calls what they may write. */
static void
name_targets(const struct operation *operation, struct named *named)
{
    const bool is_library = is_of_library(operation);
    for (unsigned i = 0; i < operation->operand_count; ++i) {
        const struct operand *operand = &operation->operands[i];
        bool is_written = is_library ? operand->access != ACCESS_READ : is_target(operand);
        if (operand->pointer_count > 0)
            named->any_other = true; /* where the pointers lead is not looked at */
        else if (is_written)
            note_address(named, operand->address, false);
    }
}

static bool
writes_fresh_only(const struct operation *operation)
{
    struct named named = {false, false};
    if (fresh_count == 0 || operation->graph != NULL)
        return false;
    if (operation->function != NULL)
        name_words(operation, &named);
    else
        name_targets(operation, &named);
    return named.any_fresh && !named.any_other;
}

static void
note_unknown(void *arg, const struct pointed *pointed)
{
    (void)arg;
    struct fresh *found = fresh_at(pointed->address);
    if (found != NULL)
        found->is_unknown = true;
}

/* What it would have written is not there. */
static void
note_left_out(const struct operation *operation)
{
    if (fresh_count == 0)
        return;
    const struct function_layout *layout = operation->function != NULL ? function_layout(operation->function) : NULL;
    pointers_visit(operation, layout, true, note_unknown, NULL);
}

/* ---- for others ---- */

static void
refuse_graph_with_step(const struct operation *operation)
{
    struct recording *recording = recording_find(operation->graph);
    if (recording_steps(recording))
        stop_job("a CUDA graph that holds DDP_STEP is launched in the region of %s (%s:%d): end the capture before "
                 "DDP_STEP, and call it after the launch",
                 TURN_SITE(open_region.site));
    if (recording != NULL)
        recording_release(recording);
}

bool
turn_leaves_out(struct operation *operation)
{
    if (turn_region() == NULL)
        return false;
    if (operation->graph != NULL)
        refuse_graph_with_step(operation);
    if (!is_shared_out() || is_engines(operation))
        return false;
    const bool is_work = is_device_work(operation) && !is_captured(operation);
    host_is_source = false;
    if (!is_work)
        return false;
    turn_update_launched(operation);
    if (!leaves_out || writes_fresh_only(operation)) {
        count(&engine_state.status->turn_operations, 1);
        return false;
    }
    note_left_out(operation);
    count(&engine_state.status->turn_left_out, 1);
    operation->skip = true;
    return true;
}

void
turn_copies_from_host(void)
{
    host_is_source = is_shared_out();
}
