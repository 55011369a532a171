/*
 * escaped_pointers.c - gradients whose address has escaped to device memory.
 *
 * A kernel that gets a gradient's address from memory (a table of pointers, a struct behind a pointer, constant memory)
 * touches the gradient unseen. So whatever is copied to the device is searched for pointers into memory that exists
 * there (allocations.c), from the process's first allocation on: they are remembered, for what they point into may be
 * annotated later. A gradient with a pointer into it among them, at a multiple of its element's size, is deferred: it
 * is averaged at the boundary only, which waits for every stream with kernels; and kernels on other streams wait for
 * the average before they run. Once deferred, a gradient stays so until it is forgotten. If it was launched already in
 * this step, its bucket is sent once more where its content has changed since (send/speculation.c). Kernels may reach a
 * buffer unseen as well: it is sent at the boundary in any case, and the only effect of escape_hold() is that streams
 * wait.
 *
 * The ranks exchange what they hold before each vote, and plan alike (deferred.c). Called from the hooks in any thread.
 */
#include "interpose/engine/memory/escapes.h"

#include "base/message.h"
#include "bucketing/words.h"

enum { WORDS_AT_FIRST = 1024, WORDS_AT_MOST = 1 << 20 };

/* A copy with at least one address in so many bytes is a table of pointers, or a struct that has some. With fewer, as
 * in a batch of images, a number may only look like an address. */
enum { BYTES_PER_ADDRESS = 512 };

/* All addresses of device memory that were ever copied to the device; guarded by the engine's lock. */
static struct {
    uint64_t *slots; /* open addressing; 0: free */
    size_t slot_count, used_count;
    bool overflow; /* too many to keep: every address may be among them */
} copied;

/* ---- the set of copied addresses; with lock held ---- */

static size_t
slot_of(const uint64_t *slots, size_t slot_count, uint64_t word)
{
    size_t at = (size_t)((word * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & (slot_count - 1);
    while (slots[at] != 0 && slots[at] != word)
        at = (at + 1) & (slot_count - 1);
    return at;
}

static bool
make_room_for_pointer(void)
{
    if (2 * (copied.used_count + 1) <= copied.slot_count)
        return true;
    size_t grown_count = copied.slot_count == 0 ? WORDS_AT_FIRST : 2 * copied.slot_count;
    uint64_t *grown = grown_count <= 2 * WORDS_AT_MOST ? calloc(grown_count, sizeof(*grown)) : NULL;
    if (grown == NULL)
        return false;
    for (size_t i = 0; i < copied.slot_count; ++i) {
        if (copied.slots[i] != 0)
            grown[slot_of(grown, grown_count, copied.slots[i])] = copied.slots[i];
    }
    free(copied.slots);
    copied.slots = grown;
    copied.slot_count = grown_count;
    return true;
}

static void
remember(uint64_t word)
{
    if (copied.slot_count > 0 && copied.slots[slot_of(copied.slots, copied.slot_count, word)] == word)
        return;
    if (!make_room_for_pointer()) {
        copied.overflow = true;
        return;
    }
    copied.slots[slot_of(copied.slots, copied.slot_count, word)] = word;
    ++copied.used_count;
}

/* The last tensor that was deferred because of a copy with few addresses; guarded by the engine's lock. */
static struct {
    struct tensor tensor;
    size_t bytes;  /* of the copy */
    uint64_t step; /* from 1 */
} scattered;

/* ---- gradients that are deferred ---- */

/* Whether the word points into the tensor: a pointer to one of its elements does not lie between two. */
static bool
is_pointer_into(uint64_t word, const struct tensor *tensor)
{
    return word >= tensor->address && word < tensor->address + tensor->bytes &&
           (word - tensor->address) % type_bytes(tensor->type) == 0;
}

bool
escape_has(const struct tensor *tensor)
{
    if (copied.overflow || !allocations_cover(tensor->address, tensor->bytes, MEMORY_DEVICE))
        return true; /* memory whose allocation was not seen: its address was not looked for */
    for (size_t i = 0; i < copied.slot_count; ++i) {
        if (is_pointer_into(copied.slots[i], tensor))
            return true;
    }
    return false;
}

void
escape_hold(struct tensor *tensor)
{
    tensor->escaped = true;
    atomic_fetch_add(&engine_state.escapes, 1);
    if (!atomic_exchange(&memory_state.any_escaped, true))
        functions_report_all();
    struct group *group = &memory_state.groups[tensor->group];
    if (!tensor->averaged || memory_state.annotations_changed || group->plan == NULL)
        return; /* planner_reset() will see it */
    if (readiness_is_declared(&group->readiness, tensor->member))
        return;
    history_ignore(&group->history, tensor->member);
    readiness_hold(&group->readiness, tensor->member);
}

enum deferral
escape_deferral(const struct tensor *tensor)
{
    if (tensor_is_shared(tensor))
        return DEFERRED_SHARED;
    return tensor->escaped && !tensor->declared ? DEFERRED_ESCAPED : DEFERRED_NOT;
}

/* What a copied address does to a gradient. */
struct found {
    struct tensor tensor;
    bool overlaps; /* it might have been launched early until now */
};

/* With lock held: defers the tensor if it is not deferred; *found_p says what that means. */
static void
hold_found(struct tensor *tensor, struct found *found_p) WITH_LOCK
{
    if (!tensor_is_sent(tensor) || tensor_is_shared(tensor) || !tensor->placed || tensor->escaped)
        return;
    const struct group *group = &memory_state.groups[tensor->group];
    bool waits = !tensor->averaged || !group->overlapping || memory_state.annotations_changed ||
                 readiness_is_declared(&group->readiness, tensor->member);
    *found_p = (struct found){.tensor = *tensor, .overlaps = !waits};
    escape_hold(tensor);
}

/* With lock held: whether the word is an address of memory that exists. What it points into is deferred. */
static bool
note_word(uint64_t word, struct found *found_p) WITH_LOCK
{
    if (!allocations_cover(word, 1, MEMORY_DEVICE))
        return false;
    remember(word);
    struct tensor *tensor = tensor_at(word);
    if (tensor != NULL && is_pointer_into(word, tensor))
        hold_found(tensor, found_p);
    return true;
}

/* Once in each rank, because another rank need not have copied such a thing. */
static void
say_overlap_lost(const struct tensor *gradient)
{
    static _Atomic bool said;
    if (atomic_exchange(&said, true))
        return;
    message_warning(
        "escaped_address",
        "in step %llu a copy to the device held the address of %s: from the next step on this gradient and, until the "
        "next plan, gradients that become complete after it are averaged at DDP_STEP, without overlap",
        (unsigned long long)atomic_load(&engine_state.boundary_count) + 1, tensor_text(gradient));
}

/* Without the lock: what follows from it. */
static void
follow_found(const struct found *found)
{
    if (found->overlaps)
        say_overlap_lost(&found->tensor);
}

/* With lock held: a copy of `bytes` bytes with so many addresses of device memory has deferred a tensor. */
static void
note_copy(const struct tensor *tensor, size_t bytes, size_t addresses)
{
    if (addresses * BYTES_PER_ADDRESS >= bytes) {
        atomic_fetch_add(&engine_state.certain_escapes, 1);
        return;
    }
    scattered.tensor = *tensor;
    scattered.bytes = bytes;
    scattered.step = atomic_load(&engine_state.boundary_count) + 1;
}

static void
say_scattered(const struct ddp_site *site)
{
    static _Atomic bool said;
    if (atomic_exchange(&said, true))
        return;
    engine_lock();
    struct tensor tensor = scattered.tensor;
    size_t bytes = scattered.bytes;
    uint64_t step = scattered.step;
    engine_unlock();
    message_warning(
        "escaped_number",
        "rank %d: in step %llu, a copy of %zu bytes to the device held a number that equals an address in %s; "
        "the graph with DDP_STEP (%s:%d) does not wait for kernels that read the number as a pointer. If it is "
        "one, copy it before the capture; if not, ignore this message",
        engine_state.rendezvous.rank, (unsigned long long)step, bytes, tensor_text(&tensor), site->file, site->line);
}

bool
escape_certain_since(const struct escape_count *then, const struct ddp_site *site)
{
    if (atomic_load(&engine_state.escapes) == then->all)
        return false;
    bool is_certain = atomic_load(&engine_state.certain_escapes) != then->certain;
    if (!is_certain)
        say_scattered(site);
    return is_certain;
}

/* ---- what reaches the device ---- */

void
escape_of_all(void)
{
    bool more = true;
    atomic_fetch_add(&engine_state.certain_escapes, 1);
    for (size_t i = 0; more; ++i) {
        struct found found = {.overlaps = false};
        engine_lock();
        copied.overflow = true;
        more = i < engine_state.tensor_count;
        if (more)
            hold_found(&memory_state.tensors[i], &found);
        engine_unlock();
        follow_found(&found);
    }
}

bool
escape_from_host(const void *memory, size_t bytes)
{
    if (bytes < sizeof(uint64_t))
        return false;
    const struct words_spans spans = LOCKED(allocations_spans());
    struct tensor held = {.placed = false};
    size_t at = 0, addresses = 0;
    while ((at = words_find(memory, bytes, at, &spans)) != WORDS_NONE) {
        struct found found = {.overlaps = false};
        uint64_t word;
        memcpy(&word, (const char *)memory + at, sizeof(word));
        engine_lock();
        addresses += note_word(word, &found);
        engine_unlock();
        follow_found(&found);
        if (found.tensor.placed)
            held = found.tensor;
        at += sizeof(uint32_t);
    }
    if (held.placed) {
        engine_lock();
        note_copy(&held, bytes, addresses);
        engine_unlock();
    }
    return addresses > 0;
}

/* ---- kernels, where gradients are deferred ---- */

/* Whether this thread has done all this for the stream since the last boundary. */
static __thread struct {
    CUstream stream;
    uint64_t boundary;
    uint64_t changes; /* stream_changes then: a new stream may have the handle of an old one, or one be captured */
} marked;

bool
escape_is_marked(CUstream stream)
{
    uint64_t boundary = atomic_load(&engine_state.boundary_count) + 1; /* never 0 */
    uint64_t changes = atomic_load(&engine_state.stream_changes);
    /* While there are captures, a stream may be drawn into one of them, by an event that the engine does not see. */
    return marked.stream == stream && marked.boundary == boundary && marked.changes == changes &&
           stream != CU_STREAM_PER_THREAD && atomic_load(&engine_state.captures_open) == 0;
}

void
escape_mark(CUstream stream)
{
    uint64_t boundary = atomic_load(&engine_state.boundary_count) + 1;
    uint64_t changes = atomic_load(&engine_state.stream_changes);
    stream_wait_for_reduction(stream);
    marked.stream = stream;
    marked.boundary = boundary;
    marked.changes = changes;
}

void
escape_end_kernel(uint64_t stream_mask)
{
    for (int g = 0; g < GROUPS_AT_MOST; ++g) {
        if (memory_state.groups[g].gradient_count > 0)
            memory_state.groups[g].hidden_streams |= stream_mask;
    }
}

/* ---- for plans ---- */

/* What `tensor->deferral` says, in a plan's terms: deferred gradients share no bucket with others. */
enum { TYPE_DEFERRED = 1 << 8 };

struct plan_gradient
escape_plan_gradient(const struct tensor *tensor)
{
    return (struct plan_gradient){tensor->bytes, tensor->type | (tensor->deferral != DEFERRED_NOT ? TYPE_DEFERRED : 0)};
}

bool
escape_bucket_is_deferred(const struct plan_bucket *bucket)
{
    return (bucket->type & TYPE_DEFERRED) != 0;
}

int
escape_bucket_type(const struct plan_bucket *bucket)
{
    return bucket->type & ~TYPE_DEFERRED;
}
