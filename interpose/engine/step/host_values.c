/*
 * host_values.c - DDP_MEAN and DDP_ANY: single values in memory of the host. The ranks send them to each other by
 * messages on the host (core/exchange.c), so no call waits for the device.
 *
 * Called by start.c, which gives them to the hooks.
 */
#include "interpose/engine/core/observer.h"
#include "interpose/engine/step/step.h"
#include "interpose/engine/verify/verify.h"

#include "base/clock.h"

#include <math.h>

/* ---- is it memory of the host? ---- */

/* Whether the program has used CUDA: libcuda may be there because the program is linked with it, but answers only
 * after cuInit. */
static bool
driver_was_used(void)
{
    CUresult (*get_count)(int *) = NULL;
    void *found = engine_state.services->driver_function("cuDeviceGetCount", 2000);
    memcpy(&get_count, &found, sizeof(found));
    int count;
    return get_count != NULL && get_count(&count) != CUDA_ERROR_NOT_INITIALIZED;
}

/* The host reads and writes the value: a device's address would be a crash without words. */
static bool
is_on_device(uint64_t address, const struct ddp_site *site)
{
    if (!atomic_load(&engine_state.driver_ready) && driver_was_used())
        device_ensure_driver(site);
    struct memory_facts facts = device_ask_about((CUdeviceptr)address);
    return facts.type == CU_MEMORYTYPE_DEVICE && !facts.is_managed;
}

static const char *
name_fault(uint64_t address, bool on_device)
{
    if (address == 0)
        return "a null pointer";
    return on_device ? "device memory" : "not memory that this process can write";
}

/* ---- DDP_MEAN ---- */

static void
require_host_memory(const void *value, const struct ddp_site *site)
{
    uint64_t address = (uint64_t)(uintptr_t)value;
    bool on_device = is_on_device(address, site);
    if (on_device || !memory_is_usable(value, sizeof(float), true))
        stop_job("DDP_MEAN `%s` (%s:%d): %s; pass a float or double in host memory, after cudaMemcpy", site->text,
                 site->file, site->line, name_fault(address, on_device));
}

static double
value_at(const void *memory, int type)
{
    float narrow;
    double wide;
    memcpy(type == DDP_FLOAT64 ? (void *)&wide : &narrow, memory, type_bytes(type));
    return type == DDP_FLOAT64 ? wide : (double)narrow;
}

/* The first rank whose value makes the mean NaN: its value is NaN, or infinite. 0 if there is none. */
static int
find_culprit(const struct control_messages *all, int type)
{
    int infinite = 0;
    for (int r = all->count - 1; r >= 0; --r)
        infinite = isfinite(value_at(all->messages[r], type)) ? infinite : r;
    for (int r = 0; r < all->count; ++r) {
        if (isnan(value_at(all->messages[r], type)))
            return r;
    }
    return infinite;
}

/* The rank whose value is why, where the mean is NaN; 0 where it is not. */
static int
average(void *value, int type, const struct ddp_site *site)
{
    char about[100];
    struct control_messages all;
    snprintf(about, sizeof(about), "DDP_MEAN%s (%.50s:%d) after step %llu", type == DDP_FLOAT64 ? " of a double" : "",
             file_name_of(site->file), site->line, (unsigned long long)engine_state.boundary_count);
    const int64_t begin_ns = clock_now_ns();
    exchange_in_step(about, value, type_bytes(type), &all);
    turn_note_mean((uint64_t)(clock_now_ns() - begin_ns), site);

    double sum = 0; /* in the order of ranks: the same on all of them */
    for (int r = 0; r < all.count; ++r)
        sum += value_at(all.messages[r], type);
    sum /= all.count;
    float narrow = (float)sum;
    memcpy(value, type == DDP_FLOAT64 ? (void *)&sum : &narrow, type_bytes(type));
    int culprit = isnan(sum) ? find_culprit(&all, type) : 0;
    control_free_messages(&all);
    return culprit;
}

void
host_value_mean(const char *label, void *value, int type, const struct ddp_site *site)
{
    bool wild = label != NULL && !memory_is_usable(label, 1, false);
    if (wild || (label != NULL && label[0] == '\0'))
        stop_job("DDP_MEAN_AS `%s` (%s:%d): the label is %s; give the value a name, such as \"loss\"", site->text,
                 site->file, site->line, wild ? "not memory of this process" : "empty");
    turn_refuse_exchange("DDP_MEAN", site);
    struct ddp_site called = {label != NULL ? label : site->text, site->file, site->line};
    require_host_memory(value, site);
    const double own = value_at(value, type);
    int culprit = engine_state.rendezvous.world_size > 1 ? average(value, type, site) : 0;
    OBSERVED(mean, value, own, type, &called);
    user_metrics_mean(value_at(value, type), label, site);
    if (isnan(value_at(value, type)))
        nonfinite_stop_for_mean(culprit, called.text, site);
}

/* ---- DDP_ANY ---- */

static void __attribute__((noreturn)) refuse_flag(volatile int *flag, bool on_device, const struct ddp_site *site)
{
    stop_job("DDP_ANY `%s` (%s:%d): %s; pass the address of an int in host memory", site->text, site->file, site->line,
             name_fault((uint64_t)(uintptr_t)flag, on_device));
}

/* The flag, read once: a signal handler may write it at any time. So nothing is written here, not even the same value:
 * what the handler writes meanwhile would be lost. */
static int
read_flag(volatile int *flag, const struct ddp_site *site)
{
    int value;
    uint64_t address = (uint64_t)(uintptr_t)flag;
    bool on_device = is_on_device(address, site);
    if (on_device || peek(address, &value, sizeof(value)) < sizeof(value))
        refuse_flag(flag, on_device, site);
    return value;
}

static void
write_flag(volatile int *flag, const struct ddp_site *site)
{
    static const int one = 1;
    if (poke((uint64_t)(uintptr_t)flag, &one, sizeof(one)) < sizeof(one))
        refuse_flag(flag, false, site);
}

/* Whether a rank's word is not 0. */
static bool
is_set_anywhere(bool mine, const struct ddp_site *site)
{
    char about[100];
    struct control_messages all;
    const unsigned char word = mine;
    snprintf(about, sizeof(about), "DDP_ANY (%.50s:%d) after step %llu", file_name_of(site->file), site->line,
             (unsigned long long)engine_state.boundary_count);
    exchange_in_step(about, &word, sizeof(word), &all);
    bool found = false;
    for (int r = 0; r < all.count; ++r)
        found = found || *(const unsigned char *)all.messages[r] != 0;
    control_free_messages(&all);
    return found;
}

int
host_value_any(volatile int *flag, const struct ddp_site *site)
{
    int value = read_flag(flag, site);
    bool found = value != 0;
    if (engine_state.rendezvous.world_size > 1)
        found = is_set_anywhere(found, site);
    if (found && value != 1)
        write_flag(flag, site);
    return found;
}
