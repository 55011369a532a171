/*
 * state.c - the driver's one process-wide state: options from the environment, and whether the driver can be used at
 * all.
 *
 * Called by: every API function, through driver_enter(). Must never: join a thread or wait, because it also runs in
 * forked children (which have no stream threads) and during exit() (where kernels may still be running).
 */
#include "driver.h"

#include "softgpu/draw.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum life { LIFE_NONE, LIFE_READY, LIFE_NO_DEVICE, LIFE_FORKED, LIFE_EXITING };

struct driver driver = {.memory_key = -1};

static _Atomic int life = LIFE_NONE;

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

/* SOFTGPU_CHAOS=SEED. It is said, for a test that fails with it is to be run again with it. */
static void
be_chaotic(void)
{
    const char *text = getenv("SOFTGPU_CHAOS");
    if (text == NULL || *text == '\0') {
        return;
    }
    driver.chaos = true;
    driver.chaos_seed = option("SOFTGPU_CHAOS", 0, UINT64_MAX, 1);
    say("SOFTGPU_CHAOS is on: work of streams is delayed and reordered. SOFTGPU_CHAOS=%llu draws the same again",
        (unsigned long long)driver.chaos_seed);
}

/* SOFTGPU_UNRULY=SEED or SEED:RUN, and RANK, by which launchers number the processes of a job: they see one device
 * each. Without RUN each process has a number of its own, which is said. */
static void
be_unruly(void)
{
    const char *text = getenv("SOFTGPU_UNRULY");
    if (text == NULL || *text == '\0') {
        return;
    }
    char *end;
    uint64_t seed = strtoull(text, &end, 10), run = 0;
    bool is_number = end != text, has_run = is_number && *end == ':';
    if (has_run) {
        const char *begin = end + 1;
        run = strtoull(begin, &end, 10);
        is_number = end != begin;
    }
    if (!is_number || *end != '\0') {
        say("SOFTGPU_UNRULY=%s is neither SEED nor SEED:RUN, two numbers: off", text);
        return;
    }
    if (!has_run) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        run = softgpu_mix((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec, (uint64_t)getpid()) >> 32;
        say("SOFTGPU_UNRULY=%llu:%llu repeats what is drawn in this process", (unsigned long long)seed,
            (unsigned long long)run);
    }
    driver.unruly = true;
    driver.memory_key = pkey_alloc(0, PKEY_DISABLE_ACCESS); /* -1: the processor has none */
    driver.unruly_key = softgpu_mix(softgpu_mix(seed, run), option("RANK", 0, UINT32_MAX, 0));
}

int
driver_version(void)
{
    return driver.version != 0 ? driver.version : (int)option("SOFTGPU_DRIVER", 12000, DRIVER_VERSION, DRIVER_VERSION);
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

bool
driver_open(void)
{
    driver.profile = profile_find(getenv("SOFTGPU_DEVICE"));
    driver.memory_bytes = option("SOFTGPU_MEMORY_BYTES", 1 << 20, (uint64_t)1 << 46, (uint64_t)16 << 30);
    driver.version = driver_version();
    driver.worker_count = (unsigned)option("SOFTGPU_WORKERS", 1, 256, 1);
    driver.poison = option("SOFTGPU_POISON", 0, 1, 0) != 0;
    be_chaotic();
    const char *maps = getenv("SOFTGPU_TENSOR_MAPS");
    driver.scrambles_maps = maps != NULL && strcmp(maps, "scrambled") == 0;
    if (maps != NULL && !driver.scrambles_maps && strcmp(maps, "raw") != 0) {
        say("SOFTGPU_TENSOR_MAPS=%s is neither raw nor scrambled: tensor maps are raw", maps);
    }
    driver.fault_result = (CUresult)option("SOFTGPU_FAULT_RESULT", 1, 999, 0);
    driver.timeout_s = option("SOFTGPU_TIMEOUT_S", 0, 1000000, 0);
    driver.managed_apart = option("SOFTGPU_MANAGED_APART", 0, 1, 0) != 0;
    driver.strict = option("SOFTGPU_STRICT", 0, 1, 0) != 0;
    driver.launches_block = option("CUDA_LAUNCH_BLOCKING", 0, 1, 0) != 0;
    choose_addresses();
    driver.host_function_ns = 1000 * option("SOFTGPU_HOST_FUNCTION_US", 0, 1000000, 0);
    driver.copy_ns = 1000 * option("SOFTGPU_COPY_US", 0, 1000000, 0);
    be_unruly();
    choose_devices((int)option("SOFTGPU_DEVICES", 0, DEVICE_LIMIT, 1));
    if (pthread_atfork(NULL, NULL, on_fork_in_child) != 0 || atexit(on_exit_begin) != 0) {
        say("no memory for the driver's exit handlers: cuInit fails");
        return false;
    }
    return true;
}

void
driver_ready(void)
{
    atomic_store(&life, driver.device_count > 0 ? LIFE_READY : LIFE_NO_DEVICE);
}

bool
driver_forked(void)
{
    return atomic_load(&life) == LIFE_FORKED;
}

CUresult
driver_enter(void)
{
    REQUIRE_ELSE(!driver_is_thread(), CUDA_ERROR_NOT_PERMITTED);
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

CUresult
device_enter(CUdevice device)
{
    CUresult result = driver_enter();
    return result != CUDA_SUCCESS ? result : device_valid(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

bool
device_valid(CUdevice device)
{
    return device >= 0 && device < driver.device_count;
}
