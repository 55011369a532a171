/*
 * state.c - the driver's one process-wide state: options from the environment, and whether the driver can be used at
 * all.
 *
 * Called by: every API function, through driver_enter(). Must never: join a thread or wait, because it also runs in
 * forked children (which have no stream threads) and during exit() (where kernels may still be running).
 */
#include "driver.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { THREAD_STACK_BYTES = 16 << 20 };

enum life { LIFE_NONE, LIFE_READY, LIFE_NO_DEVICE, LIFE_FORKED, LIFE_EXITING };

struct driver driver;

static _Atomic int life = LIFE_NONE;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A number from the environment; `fallback` (said once) if it is not one or is out of range. */
static uint64_t
option(const char *name, uint64_t least, uint64_t most, uint64_t fallback)
{
    const char *text = getenv(name);
    if (text == NULL || *text == '\0') {
        return fallback;
    }
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || *text == '-' || value < least || value > most) {
        say("%s=%s is not a number from %llu to %llu: using %llu", name, text, (unsigned long long)least,
            (unsigned long long)most, (unsigned long long)fallback);
        return fallback;
    }
    return value;
}

/* CUDA_VISIBLE_DEVICES: numbers or "GPU-..." identifiers; devices from the first invalid entry on are hidden. */
static void
choose_devices(int physical_count)
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    if (text == NULL) {
        for (int i = 0; i < physical_count; ++i) {
            driver.device_index[driver.device_count++] = i;
        }
        return;
    }
    while (*text != '\0' && driver.device_count < physical_count) {
        char *end;
        long index = -1;
        text += strspn(text, " ");
        if (strncmp(text, "GPU-", 4) == 0) {
            /* Identifiers end in the physical number: see cuDeviceGetUuid. */
            const char *last = text + strcspn(text, ",");
            const char *dash = last;
            while (dash > text && dash[-1] != '-') {
                --dash;
            }
            index = strtol(dash, &end, 16);
        } else {
            index = strtol(text, &end, 10);
        }
        end += strspn(end, " ");
        if (end == text || (*end != ',' && *end != '\0') || index < 0 || index >= physical_count) {
            return;
        }
        for (int i = 0; i < driver.device_count; ++i) {
            if (driver.device_index[i] == index) { /* named twice: CUDA shows no device then */
                driver.device_count = 0;
                return;
            }
        }
        driver.device_index[driver.device_count++] = (int)index;
        text = *end == ',' ? end + 1 : end;
    }
}

static void
choose_addresses(void)
{
    const char *text = getenv("SOFTGPU_ADDRESSES");
    driver.real_addresses = text != NULL && strcmp(text, "real") == 0;
    if (text != NULL && *text != '\0' && !driver.real_addresses && strcmp(text, "any") != 0) {
        say("SOFTGPU_ADDRESSES=%s is neither any nor real: using any", text);
    }
}

static void
on_exit_begin(void)
{
    int expected = LIFE_READY;
    atomic_compare_exchange_strong(&life, &expected, LIFE_EXITING);
}

static void
on_fork_in_child(void)
{
    /* The stream threads are gone, and locks may be held by them for ever: nothing of the driver can be used, as on a
     * GPU. */
    if (atomic_load(&life) != LIFE_NONE) {
        atomic_store(&life, LIFE_FORKED);
    }
}

static void
start(void)
{
    driver.profile = profile_find(getenv("SOFTGPU_DEVICE"));
    driver.memory_bytes = option("SOFTGPU_MEMORY_BYTES", 1 << 20, (uint64_t)1 << 46, (uint64_t)16 << 30);
    driver.worker_count = (unsigned)option("SOFTGPU_WORKERS", 1, 256, 1);
    driver.poison = option("SOFTGPU_POISON", 0, 1, 0) != 0;
    const char *chaos = getenv("SOFTGPU_CHAOS");
    driver.chaos = chaos != NULL && *chaos != '\0';
    driver.chaos_seed = option("SOFTGPU_CHAOS", 0, UINT64_MAX, 1);
    const char *maps = getenv("SOFTGPU_TENSOR_MAPS");
    driver.scrambles_maps = maps != NULL && strcmp(maps, "scrambled") == 0;
    if (maps != NULL && !driver.scrambles_maps && strcmp(maps, "raw") != 0) {
        say("SOFTGPU_TENSOR_MAPS=%s is neither raw nor scrambled: tensor maps are raw", maps);
    }
    driver.strict = option("SOFTGPU_STRICT", 0, 1, 0) != 0;
    choose_addresses();
    driver.host_function_ns = 1000 * option("SOFTGPU_HOST_FUNCTION_US", 0, 1000000, 0);
    driver.copy_ns = 1000 * option("SOFTGPU_COPY_US", 0, 1000000, 0);
    choose_devices((int)option("SOFTGPU_DEVICES", 0, DEVICE_LIMIT, 1));
    if (pthread_atfork(NULL, NULL, on_fork_in_child) != 0 || atexit(on_exit_begin) != 0) {
        say("no memory for the driver's exit handlers: cuInit fails");
        return;
    }
    if (driver.device_count > 0) {
        fault_watch();
    }
    atomic_store(&life, driver.device_count > 0 ? LIFE_READY : LIFE_NO_DEVICE);
}

/* Set in the driver's own threads: a host function or callback must not call CUDA, where it might wait for itself. */
static _Thread_local bool is_driver_thread;

bool
driver_is_thread(void)
{
    return is_driver_thread;
}

CUresult
driver_enter(void)
{
    if (is_driver_thread) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    switch (atomic_load_explicit(&life, memory_order_acquire)) {
    case LIFE_READY:
        return CUDA_SUCCESS;
    case LIFE_NO_DEVICE:
        return CUDA_ERROR_NO_DEVICE;
    case LIFE_EXITING:
        return CUDA_ERROR_DEINITIALIZED;
    default: /* not initialised, or a forked child */
        return CUDA_ERROR_NOT_INITIALIZED;
    }
}

bool
driver_exiting(void)
{
    return atomic_load_explicit(&life, memory_order_relaxed) == LIFE_EXITING;
}

/* ---- threads ---- */

struct start {
    void *(*run)(void *);
    void *argument;
};

static void *
run_thread(void *memory)
{
    struct start start = *(struct start *)memory;
    free(memory);
    is_driver_thread = true;
    void *stack = fault_stack_make();
    void *result = start.run(start.argument);
    fault_stack_end(stack);
    return result;
}

static int
create_thread(struct start *start, const char *name)
{
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error != 0) {
        return error;
    }
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    sigset_t blocked, old;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; ++i) {
        sigdelset(&blocked, faults[i]);
    }
    pthread_t thread;
    pthread_sigmask(SIG_SETMASK, &blocked, &old);
    error = pthread_create(&thread, &attributes, run_thread, start);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    if (error == 0) {
        pthread_setname_np(thread, name);
    }
    return error;
}

bool
driver_thread(void *(*run)(void *), void *argument, const char *name)
{
    struct start *start = malloc(sizeof *start);
    int error = ENOMEM;
    if (start != NULL) {
        *start = (struct start){run, argument};
        error = create_thread(start, name);
    }
    if (error != 0) {
        free(start);
        say("no thread for %s: %s; fewer streams, or a higher limit on threads, would help", name, strerror(error));
    }
    return error == 0;
}

/* ---- the rest ---- */

bool
device_valid(CUdevice device)
{
    return device >= 0 && device < driver.device_count;
}

CUresult
cuInit(unsigned int flags)
{
    if (flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (atomic_load(&life) == LIFE_FORKED) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    pthread_once(&once, start);
    return driver_enter();
}

CUresult
cuDriverGetVersion(int *version)
{
    if (version == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *version = DRIVER_VERSION;
    return CUDA_SUCCESS;
}
