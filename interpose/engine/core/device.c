/*
 * device.c - the driver and the collectives, when they are first needed; and what the driver knows of an address.
 *
 * Called in the threads of the trainer, wherever an annotation, a step or a hook needs the device.
 */
#include "interpose/engine/core/core.h"

#include "base/clock.h"
#include "base/message.h"

#include <sched.h>

/* As long as waking a thread may take. */
enum { AWAITS_BY_LOOKING_US = 300 };

static _Atomic bool driver_loaded_here; /* the program had not loaded it */

static bool
driver_is_found(void)
{
    return engine_state.services->driver_function("cuInit", 2000) != NULL;
}

/* A program without CUDA, whose annotated memory is the host's, has not loaded the driver: NCCL needs it. */
static void
find_driver(const struct ddp_site *site)
{
    if (driver_is_found())
        return;
    if (atomic_load(&engine_state.status->call_count) > 0)
        stop_job("the CUDA driver has no cuGetProcAddress (as of CUDA 12.0); a newer driver is needed");
    if (!engine_state.services->load_driver())
        stop_job("%s:%d annotates memory, and the CUDA driver (libcuda.so.1) cannot be loaded", site->file, site->line);
    atomic_store(&driver_loaded_here, true);
    if (!driver_is_found())
        stop_job("the CUDA driver has no cuGetProcAddress (as of CUDA 12.0); a newer driver is needed");
}

void
device_refuse_unseen(const struct ddp_site *site)
{
    if (atomic_load(&driver_loaded_here))
        stop_job("%s:%d annotates memory that is not the host's, but no call to the CUDA driver has passed through "
                 "ddprun: the preload does not reach it (a driver loaded with RTLD_DEEPBIND, or under another name?)",
                 site->file, site->line);
}

/* The calling thread's context; the primary one of the first device if it has none, retained for good. */
static CUcontext
open_context(void)
{
    CUresult (*init)(unsigned) = NULL;
    CUcontext context = NULL;
    void *found = engine_state.services->driver_function("cuInit", 2000);
    ASSERT(found != NULL);
    memcpy(&init, &found, sizeof(found));
    require_cuda(init(0), "cuInit");
    CUDA("cuCtxGetCurrent", cuCtxGetCurrent, &context);
    if (context == NULL)
        CUDA("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain, &context, 0);
    return context;
}

void
device_ensure_driver(const struct ddp_site *site)
{
    if (atomic_load(&engine_state.driver_ready))
        return;
    struct driver driver;
    struct comm_error error;
    find_driver(site);
    if (!driver_fill(&driver, engine_state.services->driver_function, &error))
        stop_job("%s", error.text);

    engine_lock();
    if (!atomic_load(&engine_state.driver_ready)) {
        engine_state.driver = driver;
        atomic_store(&engine_state.driver_ready, true);
    }
    engine_unlock();
}

void
device_refuse_after_reset(const char *macro, const struct ddp_site *site)
{
    if (atomic_load(&engine_state.context_ended) && !engine_state.alone)
        stop_job("%s (%s:%d) after the device was reset: ddprun's streams and buffers are gone with it; reset it "
                 "before the first annotation, or at the end",
                 macro, site->file, site->line);
}

void
device_ensure_events(void)
{
    if (LOCKED(engine_state.streams[0].event != NULL))
        return;

    ENTER_CONTEXT();
    CUevent events[STREAMS_AT_MOST];
    for (unsigned i = 0; i < STREAMS_AT_MOST; ++i)
        CUDA("cuEventCreate", cuEventCreate, &events[i], CU_EVENT_DISABLE_TIMING);
    engine_lock();
    for (unsigned i = 0; i < STREAMS_AT_MOST; ++i)
        engine_state.streams[i].event = events[i];
    engine_unlock();
}

/* Whether ranks divide what NCCL adds: all of them, or none. */
static void
agree_on_means(void)
{
    struct control_messages all;
    struct wire_setting *setting = &engine_state.collectives.setting;
    unsigned char mine = setting->kernels.loaded;
    int without = -1;
    exchange("the start of NCCL", &mine, sizeof(mine), &all);
    for (int r = 0; r < all.count && without < 0; ++r)
        without = *(const unsigned char *)all.messages[r] == 0 ? r : -1;
    control_free_messages(&all);
    setting->divides = without < 0;
    if (without > 0 && engine_state.rendezvous.rank == 0)
        message_warning(
            "no_kernels",
            "rank %d has no kernels of ddprun for its device: means are NCCL's own, whose factor is rounded to "
            "the type of the gradients",
            without);
}

void
device_ensure_collectives(void)
{
    if (atomic_load(&engine_state.collectives_ready))
        return;
    struct comm_error error;
    const struct nccl_watcher watcher = {.opened = engine_state.services->exempt_library,
                                         .inside = engine_state.services->inside_nccl};
    if (!nccl_open(&engine_state.nccl, engine_state.options.nccl, &watcher, &error))
        stop_job("%s", error.text);
    atomic_store(&engine_state.status->nccl_version, (uint32_t)engine_state.nccl.version);

    role_take();
    const struct job_options *options = &engine_state.options;
    const struct collectives_options wanted = {.reduction = (enum ddprun_reduction)options->reduction,
                                               .compression = (enum ddprun_compression)options->compression,
                                               .timeout_s = (int)options->timeout_s,
                                               .kernels_path = options->kernels[0] != '\0' ? options->kernels : NULL};
    status_waits_at("the start of NCCL");
    device_refuse_shared();
    require_comm(collectives_open(&engine_state.collectives, &engine_state.driver, &engine_state.nccl,
                                  &engine_state.control, &wanted, &error),
                 &error);
    agree_on_means();
    status_waits_no_more();
    CUDA("cuEventCreate", cuEventCreate, &engine_state.reduced, CU_EVENT_DISABLE_TIMING);
    inflight_prepare();
    ending_before_driver();
    atomic_store(&engine_state.collectives_ready, true);
    role_give();
}

void
device_open_program_communicator(void)
{
    struct comm_error error;
    status_waits_at("the start of NCCL for DDP_REDUCE");
    require_comm(collectives_open_program(&engine_state.collectives, &engine_state.control, &error), &error);
    status_waits_no_more();
    ending_before_driver();
}

bool
device_adopt_context(CUcontext context, int device)
{
    engine_lock();
    bool is_first = engine_state.context == NULL;
    if (is_first) {
        engine_state.context = context;
        engine_state.device = device;
    }
    engine_unlock();
    if (is_first && context == NULL) /* pooled memory, and the host's: then it is the calling thread's */
        CUDA("cuCtxGetCurrent", cuCtxGetCurrent, &engine_state.context);
    return is_first;
}

void
device_adopt_any(void)
{
    if (engine_state.context != NULL)
        return;
    CUcontext context = open_context(), before = NULL;
    CUdevice device = 0;
    CUDA("cuCtxGetCurrent", cuCtxGetCurrent, &before);
    CUDA("cuCtxSetCurrent", cuCtxSetCurrent, context);
    CUDA("cuCtxGetDevice", cuCtxGetDevice, &device);
    CUDA("cuCtxSetCurrent", cuCtxSetCurrent, before);
    (void)device_adopt_context(context, device);
}

/* The driver decides, not a map that the engine keeps. */
struct memory_facts
device_ask_about(CUdeviceptr address)
{
    struct memory_facts facts = {.type = 0};
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,   CU_POINTER_ATTRIBUTE_CONTEXT,
                                        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *values[] = {&facts.type, &facts.is_managed, &facts.device, &facts.context, &facts.begin, &facts.bytes};
    unsigned count = sizeof(attributes) / sizeof(attributes[0]);
    if (engine_state.driver.cuPointerGetAttributes_p == NULL) /* DDP_MEAN before any use of CUDA */
        return facts;
    CUresult result = engine_state.driver.cuPointerGetAttributes_p(count, attributes, values, address);
    if (driver_result_is_fault(result))
        require_cuda(result, "cuPointerGetAttributes");
    if (result != CUDA_SUCCESS)
        facts.type = 0;
    return facts;
}

enum memory_kind
device_kind_of(const struct memory_facts *facts)
{
    if (facts->is_managed)
        return MEMORY_MANAGED;
    return facts->type == CU_MEMORYTYPE_DEVICE ? MEMORY_DEVICE : MEMORY_HOST;
}

void *
device_allocate_pinned(size_t bytes)
{
    void *memory;
    RELAX_CAPTURES();
    CUDA("cuMemHostAlloc", cuMemHostAlloc, &memory, bytes, CU_MEMHOSTALLOC_PORTABLE);
    return memory;
}

CUdeviceptr
device_allocate(size_t bytes, const char *what)
{
    CUdeviceptr memory;
    RELAX_CAPTURES();
    CUDA(what, cuMemAlloc, &memory, bytes);
    return memory;
}

void
device_await(CUevent event, const char *what)
{
    const int64_t begin_us = clock_now_us();
    CUresult result;
    stop_if_asked();
    while ((result = engine_state.driver.cuEventQuery_p(event)) == CUDA_ERROR_NOT_READY) {
        if (clock_now_us() - begin_us >= AWAITS_BY_LOOKING_US) {
            result = engine_state.driver.cuEventSynchronize_p(event);
            break;
        }
        sched_yield();
    }
    require_cuda(result, what);
    stop_if_asked();
}
