/*
 * hashing.c - hashes of device memory, in stream order, without making the host wait.
 *
 * A kernel hashes memory where it is (comm/hash.h); its results stay on the device until they are collected: then 16
 * bytes a tensor are copied to the host, and one host function hands them out. Where ddprun's kernels cannot be had,
 * memory is copied in pieces through one pinned buffer, and a host function after each copy hashes the piece. The
 * stream's order keeps one set of memory enough.
 */
#include "interpose/engine/core/hashing.h"
#include "interpose/engine/core/core.h"

#include "comm/device_hash.h"
#include "comm/hash.h"

enum { PIECE_BYTES = 1 << 20, SAMPLE_WINDOWS = 8, SAMPLE_WINDOW_BYTES = 2 * HASH_BLOCK, PAGE_RESULTS = 1024 };
_Static_assert(PIECE_BYTES % HASH_BLOCK == 0 && SAMPLE_WINDOW_BYTES % HASH_BLOCK == 0, "comm/hash.h");

/* Room for results. */
struct page {
    CUdeviceptr device; /* 0: there are no kernels */
    struct hash_result *host;
    struct page *next;
};

/* Memory that is hashed; its number among others is that of its result. */
struct item {
    CUdeviceptr address;
    size_t bytes;
    bool sampled;
    uint64_t exponents; /* 0: elements are not looked at */
    bool is_known;      /* memory of the host: */
    struct hash_result known;
    void (*done)(void *arg, const struct hashed *hashed);
    void *arg;
};

/* What is collected together: the hasher's until then, the host function's afterwards. */
struct batch {
    struct page *pages;
    size_t count, capacity, launched;
    struct item *items;
};

struct hasher {
    struct page *pages; /* only ever appended: host functions read them */
    struct batch *batch;
    struct hash_launch launch;
    void *piece;         /* pinned; NULL: none was needed so far */
    struct hasher *next; /* among the idle ones */
};

/* One copied piece, on its way to its host function. */
struct piece {
    const void *data;
    size_t before, bytes;
    uint64_t exponents;
    struct hash_result *result;
};

/* Guards the list of idle hashers. Pinned memory cannot be released in a host function, so hashers are kept. */
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hasher *idle;

static _Atomic uint64_t copied_bytes;

void
hashing_copy_out(void *to, CUdeviceptr from, size_t bytes, CUstream stream, const char *what)
{
    CUDA(what, cuMemcpyDtoHAsync, to, from, bytes, stream);
    atomic_fetch_add_explicit(&copied_bytes, bytes, memory_order_relaxed);
}

uint64_t
hashing_take_copied(void)
{
    return atomic_exchange(&copied_bytes, 0);
}

void
hasher_put(struct hasher *hasher)
{
    pthread_mutex_lock(&idle_lock);
    hasher->next = idle;
    idle = hasher;
    pthread_mutex_unlock(&idle_lock);
}

static const struct kernels *
hash_kernels(void)
{
    return &engine_state.collectives.setting.kernels;
}

static struct page *
new_page(void)
{
    const size_t bytes = PAGE_RESULTS * sizeof(struct hash_result);
    struct page *page = engine_calloc(1, sizeof(*page));
    page->host = device_allocate_pinned(bytes);
    if (hash_kernels()->loaded)
        page->device = device_allocate(bytes, "cuMemAlloc for hashes");
    return page;
}

/* Room for the results of items up to `count`. */
static void
hasher_make_room(struct hasher *hasher, size_t count)
{
    struct page **end = &hasher->pages;
    for (size_t have = 0; have < count; have += PAGE_RESULTS) {
        if (*end == NULL)
            *end = new_page();
        end = &(*end)->next;
    }
    if (!hash_kernels()->loaded && hasher->piece == NULL)
        hasher->piece = device_allocate_pinned(PIECE_BYTES);
}

struct hasher *
hasher_get(void)
{
    pthread_mutex_lock(&idle_lock);
    struct hasher *hasher = idle;
    if (hasher != NULL)
        idle = hasher->next;
    pthread_mutex_unlock(&idle_lock);
    if (hasher != NULL)
        return hasher;
    hasher = engine_calloc(1, sizeof(*hasher));
    ENTER_CONTEXT();
    hasher_make_room(hasher, 1);
    return hasher;
}

/* ---- what is hashed ---- */

static void
hasher_take(struct hasher *hasher, const struct item *item)
{
    struct batch *batch = hasher->batch != NULL ? hasher->batch : (hasher->batch = engine_calloc(1, sizeof(*batch)));
    batch->items = engine_grow(batch->items, batch->count, &batch->capacity, sizeof(*batch->items));
    batch->items[batch->count++] = *item;
}

static struct item
make_item(uint64_t address, size_t bytes, bool sampled, int type, void (*done)(void *arg, const struct hashed *hashed),
          void *arg)
{
    uint64_t exponent = sampled ? 0 : type_exponent(type);
    return (struct item){.address = address,
                         .bytes = bytes,
                         .sampled = sampled && bytes > (size_t)SAMPLE_WINDOWS * SAMPLE_WINDOW_BYTES,
                         .exponents = exponent != 0 ? hash_exponents(exponent, type_bytes(type)) : 0,
                         .done = done,
                         .arg = arg};
}

void
hasher_add(struct hasher *hasher, CUdeviceptr address, size_t bytes, int type,
           void (*done)(void *arg, const struct hashed *hashed), void *arg)
{
    const struct item item = make_item(address, bytes, false, type, done, arg);
    hasher_take(hasher, &item);
}

void
hasher_add_sample(struct hasher *hasher, CUdeviceptr address, size_t bytes,
                  void (*done)(void *arg, const struct hashed *hashed), void *arg)
{
    const struct item item = make_item(address, bytes, true, 0, done, arg);
    hasher_take(hasher, &item);
}

static size_t
hashed_bytes(const struct item *item)
{
    return item->sampled ? (size_t)SAMPLE_WINDOWS * SAMPLE_WINDOW_BYTES : item->bytes;
}

/* Where window `i` of a sample begins. */
static CUdeviceptr
window_address(const struct item *item, size_t i)
{
    return item->address + (item->bytes - SAMPLE_WINDOW_BYTES) / (SAMPLE_WINDOWS - 1) * i;
}

/* ---- on the host, at once ---- */

/* Whether all of [address, address + bytes), which lies after `before` bytes that are hashed, is there. */
static bool
hash_host(struct item *item, uint64_t before, uint64_t address, size_t bytes, char *piece)
{
    for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
        size_t here = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        if (peek(address + at, piece, here) < here)
            return false;
        item->known.sum = hash_part(item->known.sum, before + at, piece, here);
        if (item->exponents != 0)
            hash_look(piece, here, item->exponents, &item->known);
    }
    return true;
}

bool
hasher_add_host(struct hasher *hasher, uint64_t address, size_t bytes, bool sampled, int type,
                void (*done)(void *arg, const struct hashed *hashed), void *arg)
{
    struct item item = make_item(address, bytes, sampled, type, done, arg);
    item.is_known = true;
    char *piece = engine_calloc(1, PIECE_BYTES);
    bool is_there = true;
    for (size_t i = 0; i < SAMPLE_WINDOWS && item.sampled; ++i)
        is_there =
            is_there && hash_host(&item, i * SAMPLE_WINDOW_BYTES, window_address(&item, i), SAMPLE_WINDOW_BYTES, piece);
    if (!item.sampled)
        is_there = hash_host(&item, 0, address, bytes, piece);
    free(piece);
    if (is_there)
        hasher_take(hasher, &item);
    return is_there;
}

/* ---- on the device ---- */

static void
run_launch(struct hasher *hasher, CUstream stream)
{
    struct comm_error error;
    bool done = device_hash_run(&hasher->launch, &engine_state.driver, hash_kernels(), stream, &error);
    if (!done)
        stream_refuse_foreign(stream);
    require_comm(done, &error);
}

static void
add_range(struct hasher *hasher, CUstream stream, struct hash_range range)
{
    if (device_hash_add(&hasher->launch, range))
        return;
    run_launch(hasher, stream);
    bool fits = device_hash_add(&hasher->launch, range);
    ASSERT(fits);
}

static void
add_item(struct hasher *hasher, CUstream stream, const struct item *item, CUdeviceptr result)
{
    if (item->bytes == 0 || item->is_known)
        return;
    struct hash_range range = {item->address, item->bytes, result, item->exponents, 0, 0};
    if (!item->sampled) {
        add_range(hasher, stream, range);
        return;
    }
    range.bytes = SAMPLE_WINDOW_BYTES;
    for (size_t i = 0; i < SAMPLE_WINDOWS; ++i) {
        range.address = window_address(item, i);
        range.number = (uint32_t)(i * (SAMPLE_WINDOW_BYTES / HASH_BLOCK));
        add_range(hasher, stream, range);
    }
}

/* ---- on the host, where there are no kernels ---- */

static void CUDA_CB
hash_piece(void *data)
{
    struct piece *piece = data;
    if (piece->before == 0)
        *piece->result = (struct hash_result){0, 0, 0};
    piece->result->sum = hash_part(piece->result->sum, piece->before, piece->data, piece->bytes);
    if (piece->exponents != 0)
        hash_look(piece->data, piece->bytes, piece->exponents, piece->result);
    free(piece);
}

static const char copied[] = "copying memory that is checked";

static void
copy_item(struct hasher *hasher, CUstream stream, const struct item *item, struct hash_result *result)
{
    size_t bytes = item->is_known ? 0 : hashed_bytes(item);
    for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
        struct piece *piece = engine_calloc(1, sizeof(*piece));
        *piece = (struct piece){hasher->piece, at, bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES, item->exponents,
                                result};
        for (size_t i = 0; i < SAMPLE_WINDOWS && item->sampled; ++i)
            hashing_copy_out((char *)hasher->piece + i * SAMPLE_WINDOW_BYTES, window_address(item, i),
                             SAMPLE_WINDOW_BYTES, stream, copied);
        if (!item->sampled)
            hashing_copy_out(hasher->piece, item->address + at, piece->bytes, stream, copied);
        CUDA("cuLaunchHostFunc", cuLaunchHostFunc, stream, hash_piece, piece);
    }
}

/* ---- launching and collecting ---- */

/* The results [from, to) of a page. */
static void
launch_page(struct hasher *hasher, CUstream stream, const struct page *page, size_t first, size_t from, size_t to)
{
    const size_t each = sizeof(struct hash_result);
    if (hash_kernels()->loaded)
        CUDA("clearing hashes", cuMemsetD8Async, page->device + each * from, 0, each * (to - from), stream);
    for (size_t i = from; i < to; ++i) {
        const struct item *item = &hasher->batch->items[first + i];
        if (hash_kernels()->loaded)
            add_item(hasher, stream, item, page->device + each * i);
        else
            copy_item(hasher, stream, item, &page->host[i]);
    }
}

void
hasher_launch(struct hasher *hasher, CUstream stream)
{
    struct batch *batch = hasher->batch;
    if (batch == NULL || batch->launched == batch->count)
        return;
    ENTER_CONTEXT();
    hasher_make_room(hasher, batch->count);
    struct page *page = hasher->pages;
    for (size_t first = 0; first < batch->count; first += PAGE_RESULTS, page = page->next) {
        size_t from = batch->launched > first ? batch->launched - first : 0, to = batch->count - first;
        to = to < PAGE_RESULTS ? to : PAGE_RESULTS;
        if (from < to)
            launch_page(hasher, stream, page, first, from, to);
    }
    run_launch(hasher, stream);
    batch->launched = batch->count;
}

static void CUDA_CB
hand_out(void *data)
{
    struct batch *batch = data;
    const struct page *page = batch->pages;
    for (size_t i = 0; i < batch->count; ++i) {
        const struct item *item = &batch->items[i];
        if (i > 0 && i % PAGE_RESULTS == 0)
            page = page->next;
        const struct hash_result *result = item->is_known ? &item->known : &page->host[i % PAGE_RESULTS];
        size_t bytes = hashed_bytes(item);
        struct hashed hashed = {.finite = bytes == 0 || result->infinite == 0,
                                .zero = bytes == 0 || result->nonzero == 0};
        hashed.hash = bytes > 0 ? hash_end(result->sum, bytes) : HASH_OF_NOTHING;
        item->done(item->arg, &hashed);
    }
    free(batch->items);
    free(batch);
}

void
hasher_collect(struct hasher *hasher, CUstream stream)
{
    hasher_launch(hasher, stream);
    struct batch *batch = hasher->batch;
    if (batch == NULL)
        return;
    hasher->batch = NULL;
    batch->pages = hasher->pages;
    ENTER_CONTEXT();
    const struct page *page = batch->pages;
    for (size_t first = 0; first < batch->count && hash_kernels()->loaded; first += PAGE_RESULTS, page = page->next) {
        size_t count = batch->count - first < PAGE_RESULTS ? batch->count - first : PAGE_RESULTS;
        hashing_copy_out(page->host, page->device, count * sizeof(struct hash_result), stream, copied);
    }
    CUDA("cuLaunchHostFunc", cuLaunchHostFunc, stream, hand_out, batch);
}
