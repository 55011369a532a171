/*
 * functions.c - where are the pointers in a kernel's arguments?
 *
 * The driver tells the offset and size of every parameter since CUDA 12.4 (cuFuncGetParamInfo). Asked once for each
 * handle; launches that touch nothing do not come here (miss.c). Handles may be used again after a module was unloaded,
 * so unloading forgets them all, and nothing is kept while it goes on.
 */
#include "interpose/engine/state.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_AT_FIRST = 256, PARAMS_AT_MOST = 4096 };

struct slot {
    CUfunction function; /* NULL: free */
    const struct function_layout *layout;
};

/* Guards the table. Layouts live for ever: a launch may be using one. */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct slot *slots;
static size_t slot_count, used_count;
static unsigned unloading; /* threads */

static size_t
slot_of(const struct slot *table, size_t count, CUfunction function)
{
    size_t at = (size_t)(((uintptr_t)function >> 4) * UINT64_C(0x9E3779B97F4A7C15)) & (count - 1);
    while (table[at].function != NULL && table[at].function != function)
        at = (at + 1) & (count - 1);
    return at;
}

static const struct function_layout *
find(CUfunction function)
{
    pthread_mutex_lock(&table_lock);
    const struct function_layout *layout = slot_count > 0 ? slots[slot_of(slots, slot_count, function)].layout : NULL;
    pthread_mutex_unlock(&table_lock);
    return layout;
}

const char *
function_name(CUfunction function)
{
    const struct function_layout *layout = function != NULL ? find(function) : NULL;
    return layout != NULL ? layout->name : NULL;
}

/* With table_lock held. False when memory runs out: the function is then asked about every time. */
static bool
make_room(void)
{
    if (2 * (used_count + 1) <= slot_count)
        return true;
    size_t grown_count = slot_count == 0 ? SLOTS_AT_FIRST : 2 * slot_count;
    struct slot *grown = calloc(grown_count, sizeof(*grown));
    if (grown == NULL)
        return false;
    for (size_t i = 0; i < slot_count; ++i) {
        if (slots[i].function != NULL)
            grown[slot_of(grown, grown_count, slots[i].function)] = slots[i];
    }
    free(slots);
    slots = grown;
    slot_count = grown_count;
    return true;
}

static void
keep(CUfunction function, const struct function_layout *layout)
{
    pthread_mutex_lock(&table_lock);
    if (unloading == 0 && make_room()) {
        struct slot *slot = &slots[slot_of(slots, slot_count, function)];
        used_count += slot->function == NULL;
        *slot = (struct slot){function, layout};
        miss_add_kernel(function, layout);
    }
    pthread_mutex_unlock(&table_lock);
}

/* With table_lock held. */
static void
forget(void)
{
    free(slots);
    slots = NULL;
    slot_count = used_count = 0;
    miss_forget_kernels();
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
functions_none_misses(void)
{
    pthread_mutex_lock(&table_lock);
    miss_forget_kernels();
    pthread_mutex_unlock(&table_lock);
}

uint64_t
call_identity(const char *name)
{
    return XXH3_64bits(name, strlen(name));
}

/* A launch may name a CUkernel where it says CUfunction: which of the two queries answers is found out by asking. */
static CUresult
param_info(CUfunction function, size_t index, size_t *offset_p, size_t *bytes_p)
{
    const struct driver *driver = &engine_state.driver;
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (driver->cuFuncGetParamInfo_p != NULL)
        result = driver->cuFuncGetParamInfo_p(function, index, offset_p, bytes_p);
    if (result != CUDA_SUCCESS && driver->cuKernelGetParamInfo_p != NULL)
        result = driver->cuKernelGetParamInfo_p((CUkernel)function, index, offset_p, bytes_p);
    return result;
}

static const char *
name_of(CUfunction function)
{
    const struct driver *driver = &engine_state.driver;
    const char *name = NULL;
    if (driver->cuFuncGetName_p != NULL && driver->cuFuncGetName_p(&name, function) == CUDA_SUCCESS && name != NULL)
        return strdup(name);
    if (driver->cuKernelGetName_p != NULL && driver->cuKernelGetName_p(&name, (CUkernel)function) == CUDA_SUCCESS &&
        name != NULL)
        return strdup(name);
    return NULL;
}

static struct function_layout *
ask_driver(CUfunction function)
{
    size_t offset, bytes;
    unsigned count = 0;
    CUresult result = CUDA_SUCCESS;
    while (count < PARAMS_AT_MOST && (result = param_info(function, count, &offset, &bytes)) == CUDA_SUCCESS)
        ++count;

    struct function_layout *layout = calloc(1, sizeof(*layout) + count * sizeof(layout->params[0]));
    if (layout == NULL)
        stop_job("out of memory");
    layout->name = name_of(function);
    /* Past the last parameter the driver answers INVALID_VALUE; anything else means that it cannot tell. */
    layout->known = result == CUDA_ERROR_INVALID_VALUE && layout->name != NULL;
    if (layout->name == NULL)
        layout->name = "a kernel without a name";
    layout->call = call_identity(layout->name);
    layout->param_count = count;
    for (unsigned i = 0; i < count; ++i)
        (void)param_info(function, i, &layout->params[i].offset, &layout->params[i].bytes);
    return layout;
}

const struct function_layout *
function_layout(CUfunction function)
{
    const struct function_layout *layout = find(function);
    if (layout == NULL) {
        layout = ask_driver(function);
        keep(function, layout);
    }
    return layout;
}
