/*
 * gate.c - which pointer does a caller get?
 *
 * Every trainer reaches the driver through dlsym("cuGetProcAddress_v2") and that function, static cudart and all. The
 * gate asks the real one first and replaces the pointer that it *returned* where that is a function we hook; the name
 * asked for does not decide, because one name has several ABIs and two stream flavours. A hooked name with a pointer
 * that we do not know gets a thunk that counts the call and jumps on. NCCL, loaded by the engine, gets the driver's own
 * pointers.
 *
 * Called by the dynamic loader's clients at any time, also before the sanitizers' runtimes have started: this file is
 * built without them. It must never call the public dlsym, allocate before a name matched, or start a thread.
 */
#include "interpose/shim/shim.h"

#include "base/message.h"

#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <string.h>

/* cuda.h calls the newer one by the older one's name. */
#undef cuGetProcAddress
CUresult cuGetProcAddress(const char *name, void **pfn, int version, cuuint64_t flags);

enum {
    THUNKS = 64, /* also in dlsym_x86_64.S */
    THUNK_BYTES = 32,
    EXEMPT_LIBRARIES = 8,
};

typedef void *(*dlsym_fn)(void *, const char *);
typedef CUresult (*get_proc_v1_fn)(const char *, void **, int, cuuint64_t);
typedef CUresult (*get_proc_v2_fn)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

/* Jumped to by our dlsym. */
__attribute__((visibility("hidden"))) void *gate_real_dlsym;

/* Used by the thunks. */
extern const char gate_thunks[] __attribute__((visibility("hidden")));
__attribute__((visibility("hidden"))) uint64_t gate_thunk_calls[THUNKS];
__attribute__((visibility("hidden"))) void *gate_thunk_targets[THUNKS];
static const char *thunk_names[THUNKS];
static _Atomic unsigned thunk_count;
static _Atomic bool thunks_exhausted;

static _Atomic(void *) real_get_proc_v1, real_get_proc_v2;
static _Atomic(void *) alias_get_proc_v1, alias_get_proc_v2; /* the same, as the driver itself hands them out */
static atomic_flag binding = ATOMIC_FLAG_INIT;               /* held by the thread that fills the routes */
static _Atomic bool bound;

struct code_range {
    uintptr_t begin, end;
};
static struct code_range exempt[EXEMPT_LIBRARIES];
static _Atomic unsigned exempt_count;

/* Set while this thread is inside the driver on the gate's behalf: its look-ups are its own business. */
static __thread int in_gate __attribute__((tls_model("initial-exec")));

static void
find_real_dlsym(void)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    for (unsigned i = 0; i < sizeof(versions) / sizeof(versions[0]) && gate_real_dlsym == NULL; ++i)
        gate_real_dlsym = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
}

void *
shim_real_dlsym(void *handle, const char *name)
{
    if (gate_real_dlsym == NULL)
        find_real_dlsym();
    return ((dlsym_fn)gate_real_dlsym)(handle, name);
}

static bool
is_exempt(const void *caller)
{
    uintptr_t address = (uintptr_t)caller;
    for (unsigned i = 0; i < atomic_load(&exempt_count); ++i) {
        if (address >= exempt[i].begin && address < exempt[i].end)
            return true;
    }
    return false;
}

struct exempt_search {
    uintptr_t address;
    struct code_range found;
};

static int
find_library(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct exempt_search *search = data;
    struct code_range range = {UINTPTR_MAX, 0};
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        uintptr_t end = begin + info->dlpi_phdr[i].p_memsz;
        range.begin = begin < range.begin ? begin : range.begin;
        range.end = end > range.end ? end : range.end;
    }
    if (search->address < range.begin || search->address >= range.end)
        return 0;
    search->found = range;
    return 1;
}

void
gate_exempt_library(const void *address)
{
    struct exempt_search search = {.address = (uintptr_t)address};
    if (dl_iterate_phdr(find_library, &search) == 0 || is_exempt(address))
        return;
    unsigned at = atomic_load(&exempt_count);
    if (at < EXEMPT_LIBRARIES) {
        exempt[at] = search.found;
        atomic_store(&exempt_count, at + 1);
    }
}

/* Whether this thread is to fill the routes. Another one that comes meanwhile waits: unfilled routes would give it
 * thunks. */
static bool
is_to_bind(void)
{
    if (atomic_load(&bound) || in_gate > 0)
        return false;
    if (!atomic_flag_test_and_set(&binding))
        return true;
    while (!atomic_load(&bound))
        sched_yield();
    return false;
}

/* Finds each hooked function, by both ways that a caller may have: they can give different addresses. */
static void
bind_routes(void *handle)
{
    if (!is_to_bind())
        return;

    ++in_gate;
    get_proc_v2_fn get_proc = (get_proc_v2_fn)shim_real_dlsym(handle, "cuGetProcAddress_v2");
    for (unsigned i = 0; i < shim_route_count; ++i) {
        struct route *route = &shim_routes[i];
        void *by_name = shim_real_dlsym(handle, route->symbol), *by_version = NULL;
        if (get_proc != NULL && get_proc(route->name, &by_version, route->version, route->flags, NULL) != CUDA_SUCCESS)
            by_version = NULL;
        if (by_name == route->hook)
            by_name = NULL;
        atomic_store(&route->alias, by_name);
        atomic_store(&route->real, by_version != NULL ? by_version : by_name);
    }
    void *older = NULL, *newer = NULL;
    if (get_proc != NULL && get_proc("cuGetProcAddress", &older, 11030, 0, NULL) == CUDA_SUCCESS)
        atomic_store(&alias_get_proc_v1, older);
    if (get_proc != NULL && get_proc("cuGetProcAddress", &newer, 12000, 0, NULL) == CUDA_SUCCESS)
        atomic_store(&alias_get_proc_v2, newer);
    --in_gate;
    atomic_store(&bound, true);
    shim_note_gate();
}

void *
shim_route_real(unsigned index)
{
    struct route *route = &shim_routes[index];
    void *real = atomic_load_explicit(&route->real, memory_order_relaxed);
    if (real != NULL)
        return real;
    /* Called through a symbol of ours by a program that links libcuda itself. */
    return shim_real_dlsym(RTLD_NEXT, route->symbol);
}

/* A counted jump to `target`; the same one for the same target. */
static void *
thunk_for(const char *name, void *target)
{
    unsigned count = atomic_load(&thunk_count);
    for (unsigned i = 0; i < count && i < THUNKS; ++i) {
        if (gate_thunk_targets[i] == target)
            return (void *)(gate_thunks + (size_t)i * THUNK_BYTES);
    }
    unsigned at = atomic_fetch_add(&thunk_count, 1);
    if (at >= THUNKS) { /* counts as called: nobody could tell */
        atomic_store(&thunks_exhausted, true);
        return target;
    }
    thunk_names[at] = strdup(name);
    gate_thunk_targets[at] = target;
    return (void *)(gate_thunks + (size_t)at * THUNK_BYTES);
}

uint64_t
gate_unknown_calls(const char **name_p)
{
    uint64_t calls = 0;
    for (unsigned i = 0; i < atomic_load(&thunk_count) && i < THUNKS; ++i) {
        uint64_t here = __atomic_load_n(&gate_thunk_calls[i], __ATOMIC_RELAXED);
        if (here > 0)
            *name_p = thunk_names[i];
        calls += here;
    }
    if (atomic_load(&thunks_exhausted)) {
        *name_p = "more unknown versions of hooked calls than can be counted";
        ++calls;
    }
    return calls;
}

/* Calls that write memory or run work, and that no hook follows: counted, so that training with them is refused. */
static const char *const not_followed[] = {
    "cuMemcpy3DPeer", "cuMemcpy3DPeerAsync",  "cuMemcpyBatchAsync",   "cuMemcpy3DBatchAsync",
    "cuMemcpyAtoD",   "cuStreamWriteValue32", "cuStreamWriteValue64", "cuStreamBatchMemOp",
};

static bool
is_not_followed(const char *name)
{
    for (unsigned i = 0; i < sizeof(not_followed) / sizeof(not_followed[0]); ++i) {
        if (strcmp(not_followed[i], name) == 0)
            return true;
    }
    return false;
}

/* What a caller gets in place of the driver's `found`, which it asked for as `name`. */
static void *
replacement(const char *name, void *found)
{
    bool hooked_name = false;
    for (unsigned i = 0; i < shim_route_count; ++i) {
        const struct route *route = &shim_routes[i];
        if (found == atomic_load(&route->real) || found == atomic_load(&route->alias) || found == route->hook)
            return route->hook;
        hooked_name = hooked_name || strcmp(route->name, name) == 0;
    }
    if (found == atomic_load(&real_get_proc_v2) || found == atomic_load(&alias_get_proc_v2))
        return (void *)cuGetProcAddress_v2;
    if (found == atomic_load(&real_get_proc_v1) || found == atomic_load(&alias_get_proc_v1)) {
        atomic_store(&real_get_proc_v1, found); /* our hook of it may be called before anybody looks it up by name */
        return (void *)cuGetProcAddress;
    }
    return hooked_name || is_not_followed(name) ? thunk_for(name, found) : found;
}

/* ---- cuGetProcAddress, with its older ABI of four arguments ---- */

static void *
real_get_proc(_Atomic(void *) *real, const char *symbol)
{
    void *found = atomic_load(real);
    if (found == NULL) { /* reached through a symbol of ours: the program links libcuda itself */
        found = shim_real_dlsym(RTLD_NEXT, symbol);
        if (found == NULL)
            return NULL;
        atomic_store(real, found);
        bind_routes(RTLD_NEXT);
    }
    return found;
}

/* Asks the driver itself whenever the shim has no business in this process, or the question comes from an exempt
 * library. */
static bool
is_replaced(CUresult result, const char *name, void *const *pfn, const void *caller)
{
    return result == CUDA_SUCCESS && name != NULL && pfn != NULL && *pfn != NULL && in_gate == 0 &&
           atomic_load(&shim.mode) != SHIM_PASSIVE && shim_in_job() && !is_exempt(caller);
}

__attribute__((visibility("default"))) CUresult
cuGetProcAddress(const char *name, void **pfn, int version, cuuint64_t flags)
{
    get_proc_v1_fn real = (get_proc_v1_fn)real_get_proc(&real_get_proc_v1, "cuGetProcAddress");
    if (real == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult result = real(name, pfn, version, flags);
    if (is_replaced(result, name, pfn, __builtin_return_address(0)))
        *pfn = replacement(name, *pfn);
    return result;
}

__attribute__((visibility("default"))) CUresult
cuGetProcAddress_v2(const char *name, void **pfn, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    get_proc_v2_fn real = (get_proc_v2_fn)real_get_proc(&real_get_proc_v2, "cuGetProcAddress_v2");
    if (real == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult result = real(name, pfn, version, flags, status);
    if (is_replaced(result, name, pfn, __builtin_return_address(0)))
        *pfn = replacement(name, *pfn);
    return result;
}

void *
gate_driver_function(const char *name, int version)
{
    get_proc_v2_fn real = (get_proc_v2_fn)atomic_load(&real_get_proc_v2);
    void *found = NULL;
    if (real == NULL)
        real = (get_proc_v2_fn)real_get_proc(&real_get_proc_v2, "cuGetProcAddress_v2");
    ++in_gate;
    if (real == NULL || real(name, &found, version, 0, NULL) != CUDA_SUCCESS)
        found = NULL;
    --in_gate;
    return found;
}

/* ---- dlsym ---- */

/* A name of ours that was looked for in `handle`: what was found there decides. */
static void *
look_up_driver(void *handle, const char *name, void *found)
{
    if (strcmp(name, "cuGetProcAddress") == 0)
        atomic_store(&real_get_proc_v1, found);
    if (strcmp(name, "cuGetProcAddress_v2") == 0)
        atomic_store(&real_get_proc_v2, found);
    bind_routes(handle);
    /* By its exported symbol a function is known exactly: never a thunk. */
    for (unsigned i = 0; i < shim_route_count; ++i) {
        if (strcmp(shim_routes[i].symbol, name) == 0) {
            if (atomic_load(&shim_routes[i].real) == NULL)
                atomic_store(&shim_routes[i].real, found);
            return shim_routes[i].hook;
        }
    }
    return replacement(name, found);
}

/* Whether the look-up ended at a symbol of this library, which stands in front of the driver's. */
static bool
is_own(const void *found)
{
    for (unsigned i = 0; i < shim_route_count; ++i) {
        if (found == shim_routes[i].hook)
            return true;
    }
    return found == (void *)cuGetProcAddress || found == (void *)cuGetProcAddress_v2;
}

static bool
is_driver_name(const char *name)
{
    if (strcmp(name, "cuGetProcAddress_v2") == 0 || strcmp(name, "cuGetProcAddress") == 0)
        return true;
    for (unsigned i = 0; i < shim_route_count; ++i) {
        if (strcmp(shim_routes[i].symbol, name) == 0)
            return true;
    }
    return false;
}

/* What our dlsym does: returns `pointer` if `answered`, else jumps to the real one. In two registers. */
struct answer {
    void *pointer;
    uintptr_t answered;
};

__attribute__((visibility("hidden"))) struct answer gate_look_up(void *handle, const char *name, const void *caller);

static struct answer
answer(void *pointer)
{
    return (struct answer){pointer, 1};
}

/* Called by our dlsym. */
__attribute__((visibility("hidden"))) struct answer
gate_look_up(void *handle, const char *name, const void *caller)
{
    static const struct answer not_ours = {NULL, 0};
    if (gate_real_dlsym == NULL)
        find_real_dlsym();
    if (name == NULL || name[0] != 'c' || name[1] != 'u' || handle == RTLD_NEXT || in_gate > 0)
        return not_ours;
    bool driver = is_driver_name(name);
    if (!driver && library_route(name, NULL) == NULL)
        return not_ours;

    /* A program that asks whether there is such a function must not be told of ours when there is none behind it. */
    void *found = shim_real_dlsym(handle, name);
    if (found != NULL && (is_own(found) || found == library_route(name, NULL))) {
        found = shim_real_dlsym(RTLD_NEXT, name);
        handle = RTLD_NEXT;
    }
    if (found == NULL || atomic_load(&shim.mode) == SHIM_PASSIVE || !shim_in_job() || is_exempt(caller))
        return answer(found);
    return answer(driver ? look_up_driver(handle, name, found) : library_route(name, found));
}
