/*
 * gate.c - which pointer does a caller get?
 *
 * Every trainer reaches the driver through dlsym("cuGetProcAddress_v2") and that function, static cudart and all. The
 * gate asks the real one first and replaces the pointer that it *returned* where that is a function we hook; the name
 * asked for does not decide, because one name has several ABIs and two stream flavours. A hooked name with a pointer
 * that we do not know gets a thunk that counts the call and jumps on. NCCL, loaded by the engine, gets the driver's own
 * pointers, and so does libcuda, which may look its own functions up (it does on WSL2).
 *
 * Programs that ask dlsym for each function by its exported name get the same hooks.
 *
 * Called by the dynamic loader's clients at any time, also before the sanitizers' runtimes have started: this file is
 * built without them. It must never call the public dlsym, allocate before a name matched, or start a thread.
 */
#include "interpose/shim/devices.h"
#include "interpose/shim/older.h"
#include "interpose/shim/shim.h"

#include <dlfcn.h>
#include <string.h>

typedef void *(*dlvsym_fn)(void *, const char *, const char *);
typedef CUresult (*get_proc_v1_fn)(const char *, void **, int, cuuint64_t);
typedef CUresult (*get_proc_v2_fn)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

/* Of original.c; jumped to by our dlsym and dlvsym. */
extern void *gate_real_dlvsym __attribute__((visibility("hidden")));

static _Atomic(void *) real_get_proc_v1, real_get_proc_v2;
static _Atomic(void *) alias_get_proc_v1, alias_get_proc_v2; /* the same, as the driver itself hands them out */
static _Atomic bool bound;

/* Set while this thread is inside the driver on the gate's behalf: its look-ups are its own business. */
static __thread int in_gate __attribute__((tls_model("initial-exec")));

/* By cuGetProcAddress; NULL if a driver without this version or flavour has answered with an earlier row's function. */
static void *
ask_for_route(get_proc_v2_fn get_proc, const struct route *route)
{
    void *found = NULL;
    if (get_proc == NULL || get_proc(route->name, &found, route->version, route->flags, NULL) != CUDA_SUCCESS)
        return NULL;
    for (const struct route *earlier = shim_routes; earlier < route; ++earlier) {
        if (atomic_load(&earlier->real) == found)
            return NULL;
    }
    return found;
}

/* Finds each hooked function, by both ways that a caller may have: they can give different addresses. Threads that come
 * here together all do it, to the same end: one of them may hold the loader's lock, so none may wait for another. */
static void
bind_routes(void *handle)
{
    if (atomic_load(&bound) || in_gate > 0)
        return;

    ++in_gate;
    get_proc_v2_fn get_proc = (get_proc_v2_fn)shim_real_dlsym(handle, "cuGetProcAddress_v2");
    for (unsigned i = 0; i < shim_route_count; ++i) {
        struct route *route = &shim_routes[i];
        void *by_name = shim_real_dlsym(handle, route->symbol);
        if (by_name == route->hook)
            by_name = NULL;
        void *by_version = ask_for_route(get_proc, route);
        atomic_store(&route->alias, by_name);
        if (by_version != NULL || by_name != NULL)
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
    if (atomic_load(&shim.status) != NULL)
        crash_watch(); /* before a driver sets handlers of its own */
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
        hooked_name = hooked_name || (route->only_waits == 0 && strcmp(route->name, name) == 0);
    }
    if (found == atomic_load(&real_get_proc_v2) || found == atomic_load(&alias_get_proc_v2))
        return (void *)cuGetProcAddress_v2;
    if (found == atomic_load(&real_get_proc_v1) || found == atomic_load(&alias_get_proc_v1)) {
        atomic_store(&real_get_proc_v1, found); /* our hook of it may be called before a look-up by name */
        return (void *)cuGetProcAddress;
    }
    return hooked_name ? recorder_thunk(name, found) : found;
}

/* ---- cuGetProcAddress, with its older ABI of four arguments ---- */

static void *
real_get_proc(_Atomic(void *) *real, const char *symbol)
{
    void *found = atomic_load(real);
    if (found == NULL) { /* never asked for by name: the program links libcuda, or takes its functions by dlsym */
        void *driver = shim_loaded_driver();
        found = driver != NULL ? shim_real_dlsym(driver, symbol) : NULL;
        if (found == NULL)
            return NULL;
        atomic_store(real, found);
        bind_routes(driver);
    }
    return found;
}

/* Whether hooks have work in this process: it is the rank or may become it, or its devices have other numbers. */
static bool
is_hooked(void)
{
    return shim_in_job() && (atomic_load(&shim.mode) != SHIM_PASSIVE || devices_asked_for() > 1);
}

/* Whether the asker gets a hook in place of the driver's function: not where the shim has no business in this process,
 * nor from an exempt library. */
static bool
is_replaced(CUresult result, const char *name, void *const *pfn, const void *caller)
{
    bool is_found = result == CUDA_SUCCESS && name != NULL && pfn != NULL && *pfn != NULL;
    if (!is_found || in_gate != 0)
        return false;
    return is_hooked() && !exempt_has(caller);
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

/* Of an exported name such as cuMemcpyHtoD_v3, which is newer than the rows: what it is called without version and
 * flavour, if that is hooked. The plain names of rows whose symbol has a version are not meant: their addresses have 32
 * bits, which no device memory has. */
static const char *
newer_version_of(const char *symbol)
{
    for (unsigned i = 0; i < shim_route_count; ++i) {
        const struct route *route = &shim_routes[i];
        size_t length = strlen(route->name);
        const char *rest = symbol + length;
        if (strncmp(symbol, route->name, length) != 0 || rest[0] != '_' || rest[1] != 'v')
            continue;
        rest += 2 + strspn(rest + 2, "0123456789");
        if (*rest == '\0' || strcmp(rest, "_ptsz") == 0 || strcmp(rest, "_ptds") == 0)
            return route->name;
    }
    return NULL;
}

/* A hooked name that was looked for in `handle`: what was found there decides. */
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
            if (atomic_load(&shim_routes[i].real) == shim_routes[i].first)
                atomic_store(&shim_routes[i].real, found);
            return shim_routes[i].hook;
        }
    }
    const char *asked = newer_version_of(name);
    return replacement(asked != NULL ? asked : name, found);
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
    return newer_version_of(name) != NULL;
}

/* What our dlsym does: returns `pointer` if `answered`, else jumps to the real one. In two registers. */
struct answer {
    void *pointer;
    uintptr_t answered;
};

__attribute__((visibility("hidden"))) struct answer gate_look_up(void *handle, const char *name, const char *unused,
                                                                 const void *caller);
__attribute__((visibility("hidden"))) struct answer gate_look_up_version(void *handle, const char *name,
                                                                         const char *version, const void *caller);

static struct answer
answer(void *pointer)
{
    return (struct answer){pointer, 1};
}

static void *
really_look_up(void *handle, const char *name, const char *version)
{
    return version == NULL ? shim_real_dlsym(handle, name) : ((dlvsym_fn)gate_real_dlvsym)(handle, name, version);
}

/* As the library sees it that holds `caller`: from itself, and what it was linked with. NULL if that is a hook. */
static void *
look_up_from(const void *caller, const char *name, const char *version)
{
    Dl_info library;
    void *handle = dladdr(caller, &library) != 0 ? dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (handle == NULL)
        return NULL;
    void *found = really_look_up(handle, name, version);
    dlclose(handle); /* drops only the count that dlopen added */
    return found != NULL && !is_own(found) && found != library_route(name, NULL) ? found : NULL;
}

/* `version` is NULL for dlsym. */
static struct answer
look_up_symbol(void *handle, const char *name, const char *version, const void *caller)
{
    static const struct answer not_ours = {NULL, 0};
    original_find();
    if (name == NULL || name[0] != 'c' || name[1] != 'u' || handle == RTLD_NEXT)
        return not_ours;
    bool driver = is_driver_name(name);
    if (!driver && library_route(name, NULL) == NULL)
        return not_ours;

    /* A program that asks whether there is such a function must not get the hook when the library has no function. */
    void *found = really_look_up(handle, name, version);
    if (found != NULL && (is_own(found) || found == library_route(name, NULL))) {
        found = really_look_up(RTLD_NEXT, name, version);
        handle = RTLD_NEXT;
        if (found == NULL) {
            found = look_up_from(caller, name, version);
            handle = driver && found != NULL ? shim_loaded_driver() : NULL;
        }
    }
    if (found == NULL || in_gate > 0 || !is_hooked() || exempt_has_driver(caller))
        return answer(found);
    return answer(driver ? look_up_driver(handle, name, found) : library_route(name, found));
}

/* Called by our dlsym. */
__attribute__((visibility("hidden"))) struct answer
gate_look_up(void *handle, const char *name, const char *unused, const void *caller)
{
    (void)unused;
    return look_up_symbol(handle, name, NULL, caller);
}

/* Called by our dlvsym. A version that is not there is the real one's business. */
__attribute__((visibility("hidden"))) struct answer
gate_look_up_version(void *handle, const char *name, const char *version, const void *caller)
{
    static const struct answer not_ours = {NULL, 0};
    original_find();
    return version == NULL ? not_ours : look_up_symbol(handle, name, version, caller);
}
