/*
 * profile.c - SOFTGPU_DEVICE: which GPU the devices pretend to be. Figures from the data sheets and NVIDIA's
 * programming guide ("Technical Specifications per Compute Capability").
 *
 * Called by: state.c, once. All other files read driver.profile.
 */
#include "driver.h"

#include <string.h>

static const struct profile profiles[] = {
    {.name = "h100",
     .title = "an H100",
     .major = 9,
     .minor = 0,
     .multiprocessors = 132,
     .shared_bytes_per_multiprocessor = 228 << 10,
     .shared_bytes_opt_in = 227 << 10,
     .shared_bytes_reserved = 1 << 10,
     .l2_bytes = 50 << 20,
     .clock_khz = 1785000,
     .memory_clock_khz = 2619000,
     .memory_bus_bits = 5120,
     .copy_engines = 3},
    {.name = "a100",
     .title = "an A100",
     .major = 8,
     .minor = 0,
     .multiprocessors = 108,
     .shared_bytes_per_multiprocessor = 164 << 10,
     .shared_bytes_opt_in = 163 << 10,
     .shared_bytes_reserved = 1 << 10,
     .l2_bytes = 40 << 20,
     .clock_khz = 1410000,
     .memory_clock_khz = 1215000,
     .memory_bus_bits = 5120,
     .copy_engines = 3},
    {.name = "v100",
     .title = "a V100",
     .major = 7,
     .minor = 0,
     .multiprocessors = 80,
     .shared_bytes_per_multiprocessor = 96 << 10,
     .shared_bytes_opt_in = 96 << 10,
     .shared_bytes_reserved = 0,
     .l2_bytes = 6 << 20,
     .clock_khz = 1530000,
     .memory_clock_khz = 877000,
     .memory_bus_bits = 4096,
     .copy_engines = 5},
};

const struct profile *
profile_find(const char *name)
{
    for (size_t i = 0; name != NULL && *name != '\0' && i < sizeof profiles / sizeof profiles[0]; ++i) {
        if (strcmp(profiles[i].name, name) == 0) {
            return &profiles[i];
        }
    }
    if (name != NULL && *name != '\0') {
        say("SOFTGPU_DEVICE=%s: there are h100, a100 and v100; using %s", name, profiles[0].name);
    }
    return &profiles[0];
}
