/*
 * functions.c - where are the pointers in a kernel's arguments?
 *
 * The driver tells the offset and size of every parameter since CUDA 12.4. A launch names a CUfunction (of a module) or
 * a CUkernel (of a library), and each kind has queries of its own, which refuse the other kind. Asked once for each
 * handle; launches that touch nothing do not get here (launch_filter.c). Handles may be used again after a module was
 * unloaded, so unloading forgets them all, and nothing is kept while a module is unloaded.
 */
#include "interpose/engine/memory/memory.h"

#include <xxhash.h>

#include <search.h>

enum { PARAMS_AT_MOST = 4096 };

enum handle_kind { HANDLE_FUNCTION, HANDLE_KERNEL, HANDLE_UNCLEAR };

struct slot {
    CUfunction function;
    bool is_kernel;                       /* a library gave it to the trainer as a CUkernel */
    const struct function_layout *layout; /* NULL: the driver was not asked yet */
};

/* Guards the table. Layouts live for ever: a launch may be using one. */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static void *slots;        /* of tsearch(3) */
static unsigned unloading; /* threads */

static int
compare_slots(const void *a, const void *b)
{
    uintptr_t one = (uintptr_t)((const struct slot *)a)->function,
              other = (uintptr_t)((const struct slot *)b)->function;
    return (one > other) - (one < other);
}

/* Without a layout if nothing is known of the handle. */
static struct slot
find_slot(CUfunction function)
{
    struct slot found = {.function = function};
    pthread_mutex_lock(&table_lock);
    struct slot *const *place = tfind(&found, &slots, compare_slots);
    if (place != NULL)
        found = **place;
    pthread_mutex_unlock(&table_lock);
    return found;
}

const char *
function_name(CUfunction function)
{
    const struct function_layout *layout = function != NULL ? find_slot(function).layout : NULL;
    return layout != NULL ? layout->name : NULL;
}

/* With table_lock held: the handle's slot, new if need be; NULL while nothing is kept, or when memory runs out: the
 * function is then asked about every time. */
static struct slot *
slot_for(CUfunction function)
{
    struct slot *added = unloading == 0 ? calloc(1, sizeof(*added)) : NULL;
    if (added == NULL)
        return NULL;
    added->function = function;
    struct slot **place = tsearch(added, &slots, compare_slots);
    struct slot *there = place != NULL ? *place : NULL;
    if (there != added)
        free(added);
    return there;
}

static void
keep(CUfunction function, const struct function_layout *layout)
{
    pthread_mutex_lock(&table_lock);
    struct slot *slot = slot_for(function);
    if (slot != NULL) {
        slot->layout = layout;
        launch_filter_add_kernel(function, layout);
    }
    pthread_mutex_unlock(&table_lock);
}

void
functions_kernels_found(const CUkernel *kernels, unsigned room, CUlibrary library, bool done)
{
    const struct driver *driver = &engine_state.driver;
    unsigned count = 1;
    if (!done)
        return;
    if (library != NULL && (!atomic_load(&engine_state.driver_ready) ||
                            driver->cuLibraryGetKernelCount_p(&count, library) != CUDA_SUCCESS))
        return; /* how many were filled in is not known: find_kind() asks the driver about each */
    pthread_mutex_lock(&table_lock);
    for (unsigned i = 0; i < count && i < room; ++i) {
        struct slot *slot = slot_for((CUfunction)kernels[i]);
        if (slot != NULL)
            slot->is_kernel = true;
    }
    pthread_mutex_unlock(&table_lock);
}

/* With table_lock held. */
static void
forget(void)
{
    tdestroy(slots, free);
    slots = NULL;
    launch_filter_forget_kernels();
}

void
functions_before_unload(void)
{
    pthread_mutex_lock(&table_lock);
    ++unloading;
    forget();
    pthread_mutex_unlock(&table_lock);
}

void
functions_after_unload(void)
{
    pthread_mutex_lock(&table_lock);
    --unloading;
    pthread_mutex_unlock(&table_lock);
}

void
functions_report_all(void)
{
    pthread_mutex_lock(&table_lock);
    launch_filter_forget_kernels();
    pthread_mutex_unlock(&table_lock);
}

void
functions_report_each(enum report_for whom, bool each)
{
    static unsigned asking; /* guarded by table_lock */
    pthread_mutex_lock(&table_lock);
    asking = each ? asking | whom : asking & ~(unsigned)whom;
    launch_filter_pause(asking != 0);
    pthread_mutex_unlock(&table_lock);
}

uint64_t
call_identity(const char *name)
{
    return XXH3_64bits(name, strlen(name));
}

/* ---- the driver's answers ---- */

static CUresult
param_info(enum handle_kind kind, CUfunction function, size_t index, size_t *offset_p, size_t *bytes_p)
{
    const struct driver *driver = &engine_state.driver;
    if (kind == HANDLE_FUNCTION)
        return driver->cuFuncGetParamInfo_p(function, index, offset_p, bytes_p);
    if (kind == HANDLE_KERNEL)
        return driver->cuKernelGetParamInfo_p((CUkernel)function, index, offset_p, bytes_p);
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* By asking for the first parameter. INVALID_VALUE is the answer of a kernel that has none; anything else but success
 * refuses the handle, mostly as CUDA_ERROR_INVALID_HANDLE, and it may be of the other kind. */
static enum handle_kind
find_kind(CUfunction function)
{
    bool is_kernel = find_slot(function).is_kernel;
    enum handle_kind likely = is_kernel ? HANDLE_KERNEL : HANDLE_FUNCTION;
    enum handle_kind other = is_kernel ? HANDLE_FUNCTION : HANDLE_KERNEL;
    size_t offset, bytes;
    CUresult first = param_info(likely, function, 0, &offset, &bytes);
    if (first == CUDA_SUCCESS || (first == CUDA_ERROR_INVALID_VALUE && is_kernel))
        return likely;
    CUresult second = param_info(other, function, 0, &offset, &bytes);
    if (second == CUDA_SUCCESS || (second == CUDA_ERROR_INVALID_VALUE && first != CUDA_ERROR_INVALID_VALUE))
        return other;
    return first == CUDA_ERROR_INVALID_VALUE ? likely : HANDLE_UNCLEAR;
}

static const char *
name_of(enum handle_kind kind, CUfunction function)
{
    const struct driver *driver = &engine_state.driver;
    const char *name = NULL;
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (kind != HANDLE_KERNEL)
        result = driver->cuFuncGetName_p(&name, function);
    if (kind != HANDLE_FUNCTION && result != CUDA_SUCCESS)
        result = driver->cuKernelGetName_p(&name, (CUkernel)function);
    return result == CUDA_SUCCESS ? name : NULL;
}

static struct function_layout *
ask_driver(CUfunction function)
{
    size_t offset, bytes;
    unsigned count = 0;
    CUresult result = CUDA_SUCCESS;
    enum handle_kind kind = find_kind(function);
    while (count < PARAMS_AT_MOST && (result = param_info(kind, function, count, &offset, &bytes)) == CUDA_SUCCESS)
        ++count;

    struct function_layout *layout = engine_calloc(1, sizeof(*layout) + count * sizeof(layout->params[0]));
    char plain[256];
    const char *linked = name_of(kind, function);
    layout->name = linked != NULL ? strdup(plain_name(linked, plain, sizeof(plain))) : NULL;
    /* Past the last parameter the driver answers INVALID_VALUE; anything else means that it cannot tell. */
    layout->known = result == CUDA_ERROR_INVALID_VALUE && layout->name != NULL;
    if (layout->name == NULL)
        layout->name = "a kernel without a name";
    layout->call = call_identity(linked != NULL ? linked : layout->name);
    layout->param_count = count;
    for (unsigned i = 0; i < count; ++i)
        (void)param_info(kind, function, i, &layout->params[i].offset, &layout->params[i].bytes);
    return layout;
}

const struct function_layout *
function_layout(CUfunction function)
{
    const struct function_layout *layout = find_slot(function).layout;
    if (layout == NULL) {
        layout = ask_driver(function);
        keep(function, layout);
    }
    return layout;
}
