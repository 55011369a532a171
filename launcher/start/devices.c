/* devices.c - see devices.h. */
#include "launcher/start/devices.h"

#include "base/protocol.h"
#include "launcher/common/xcalloc.h"
#include "launcher/start/nvml.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As many devices as the stand-in makes at most: DEVICE_LIMIT of softgpu/cuda/driver.h. */
enum { MOST_DEVICE_FILES = 1024, MOST_SOFTGPU_DEVICES = 64 };

/* -1: no NVML here; otherwise the number of GPUs. */
static int
count_with_nvml(void)
{
    const char *why;
    struct nvml *nvml = nvml_open(&why);
    int count = nvml != NULL ? nvml_gpu_count(nvml) : -1;
    nvml_close(nvml);
    return count;
}

/* Containers may have a driver without NVML; what they may use is there as /dev/nvidia0, ... with any numbers. */
static int
count_device_files(void)
{
    int count = 0;
    for (int i = 0; i < MOST_DEVICE_FILES; ++i) {
        char path[32];
        snprintf(path, sizeof(path), "/dev/nvidia%d", i);
        count += access(path, F_OK) == 0;
    }
    return count;
}

bool
devices_count_gpus(const char *program, int *gpu_count_p, struct error *error)
{
    int count = count_with_nvml();
    const char *found = count < 0 ? "no NVIDIA driver (libnvidia-ml.so.1, /dev/nvidia*)" : "no GPU (asked NVML)";
    if (count <= 0)
        count = count_device_files();
    if (count == 0)
        return error_set(
            error, DDPRUN_EXIT_USAGE,
            "%s on this machine, and %s was not built with softgpu-cc; run it where a GPU is, or build it with "
            "softgpu-cc; add --device softgpu for a script or interpreter that starts or loads such a program, and for "
            "a program that calls the driver API or loads CUDA itself (Rust, Go, Python, ...)",
            found, program);
    *gpu_count_p = count;
    return true;
}

bool
devices_check_program(const struct options *options, const struct program *program, struct error *error)
{
    return options->device != DEVICE_GPU || !program->built_for_softgpu ||
           error_set(
               error, DDPRUN_EXIT_USAGE,
               "%s was built by softgpu-cc and cannot use a GPU, as --device gpu wants; build it with nvcc, or leave "
               "--device out",
               program->path);
}

static bool
bad_visible(struct error *error, const char *value, const char *why)
{
    return error_set(error, DDPRUN_EXIT_USAGE, "CUDA_VISIBLE_DEVICES='%s' leaves no GPU: %s; change or unset it", value,
                     why);
}

/* The number of the stand-in's device with this identifier, -1: no such device. The identifier ends in the number, in
 * hexadecimal digits (softgpu/cuda/state.c). */
static int
softgpu_device(const char *name, int count)
{
    const char *digits = strrchr(name, '-') + 1;
    if (strncmp(name, "GPU-", 4) != 0 || digits[0] == '\0' || digits[strspn(digits, "0123456789abcdefABCDEF")] != '\0')
        return -1;
    unsigned long long number = strtoull(digits, NULL, 16); /* the largest there is if it is too large */
    return number < (unsigned long long)count ? (int)number : -1;
}

/* Adds what an entry of CUDA_VISIBLE_DEVICES names; false: no GPU. Which UUIDs there are is left to CUDA. */
static bool
add_visible(const struct device_inventory *inventory, const char *item, struct word_list *list)
{
    bool is_uuid = strncmp(item, "GPU-", 4) == 0 || strncmp(item, "MIG-", 4) == 0;
    if (is_uuid && !inventory->softgpu) {
        word_list_add(list, xstrdup(item));
        return true;
    }
    int index = is_uuid ? softgpu_device(item, inventory->gpu_count) : gpu_list_index(item);
    if (index < 0 || index >= inventory->gpu_count)
        return false;
    word_list_add(list, xasprintf("%d", index));
    return true;
}

/* The GPUs that a program sees: all, or those that CUDA_VISIBLE_DEVICES leaves. As CUDA does, stops at the first
 * entry that names no GPU. */
static bool
visible_gpus(const struct device_inventory *inventory, struct word_list *list, struct error *error)
{
    const char *value = inventory->visible_devices;
    if (value == NULL) {
        for (int i = 0; i < inventory->gpu_count; ++i)
            word_list_add(list, xasprintf("%d", i));
        return true;
    }

    char *copy = xstrdup(value);
    char *rest = copy;
    for (char *item; (item = strsep(&rest, ",")) != NULL;) {
        item += strspn(item, " ");
        item[strcspn(item, " ")] = '\0';
        if (!add_visible(inventory, item, list))
            break;
    }
    free(copy);
    return list->count > 0 ||
           bad_visible(error, value,
                       value[0] == '\0'     ? "it is empty"
                       : inventory->softgpu ? "its first entry is not one of the stand-in's devices (SOFTGPU_DEVICES)"
                                            : "its first entry is not a GPU of this machine");
}

/* Adds what --gpus names. A number counts within what is visible, so that it means the same under a scheduler that
 * handed out some GPUs. The stand-in's identifiers become numbers: a device that is named in both ways is named twice.
 */
static bool
add_chosen(const struct device_inventory *inventory, const struct word_list *visible, const char *name,
           struct word_list *list, struct error *error)
{
    int index = gpu_list_index(name);
    if (index >= (int)visible->count)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "there is no GPU %d, in --gpus: %zu visible here, numbered from 0; choose among those", index,
                         visible->count);
    if (index >= 0)
        return gpu_list_add_once(list, visible->list[index], error);
    if (!inventory->softgpu)
        return gpu_list_add_once(list, name, error);
    int device = softgpu_device(name, inventory->gpu_count);
    if (device < 0)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "there is no GPU %s, in --gpus: the stand-in makes %d (SOFTGPU_DEVICES), numbered from 0; "
                         "choose among those",
                         name, inventory->gpu_count);
    char number[16];
    snprintf(number, sizeof(number), "%d", device);
    return gpu_list_add_once(list, number, error);
}

static bool
chosen_gpus(const struct options *options, const struct device_inventory *inventory, const struct word_list *visible,
            struct word_list *list, struct error *error)
{
    for (size_t i = 0; i < options->gpus.count; ++i) {
        if (!add_chosen(inventory, visible, options->gpus.list[i], list, error))
            return false;
    }
    return true;
}

static bool
deal_out(const struct options *options, const struct device_inventory *inventory, const struct word_list *gpus,
         struct device_plan *plan, struct error *error)
{
    plan->rank_count = options->rank_count != 0 ? options->rank_count : (int)gpus->count;
    if (plan->rank_count > OPTIONS_MOST_RANKS)
        plan->rank_count = OPTIONS_MOST_RANKS;
    if (gpus->count == 0 || (plan->rank_count > (int)gpus->count && !options->share_gpu))
        return error_set(
            error, DDPRUN_EXIT_USAGE,
            "%d ranks want a GPU each, but there %s %zu (%s); lower -n, or add --share-gpu to let ranks share",
            plan->rank_count, gpus->count == 1 ? "is" : "are", gpus->count,
            options->gpus.count != 0                              ? "by --gpus"
            : plan->softgpu && inventory->visible_devices != NULL ? "by SOFTGPU_DEVICES and CUDA_VISIBLE_DEVICES"
            : plan->softgpu                                       ? "by SOFTGPU_DEVICES"
                                                                  : "visible on this machine");
    plan->visible = xcalloc((size_t)plan->rank_count, sizeof(*plan->visible));
    for (int rank = 0; rank < plan->rank_count; ++rank)
        plan->visible[rank] = xstrdup(gpus->list[(size_t)rank % gpus->count]);
    return true;
}

/* The stand-in makes as many devices as are asked for; each rank then has its own, and an inherited choice means
 * nothing. */
static bool
plan_free_softgpu(const struct options *options, struct device_plan *plan, struct error *error)
{
    if (options->gpus.count != 0)
        return error_set(
            error, DDPRUN_EXIT_USAGE,
            "--gpus chooses among GPUs, but the stand-in makes one for each rank; leave --gpus out, or set "
            "SOFTGPU_DEVICES to the number of devices to choose from");
    plan->rank_count = options->rank_count != 0 ? options->rank_count : 1;
    plan->visible = xcalloc((size_t)plan->rank_count, sizeof(*plan->visible));
    plan->one_device_each = true;
    return true;
}

static bool
plan_listed(const struct options *options, const struct device_inventory *inventory, struct device_plan *plan,
            struct error *error)
{
    struct word_list visible = {0}, chosen = {0};
    bool ok = visible_gpus(inventory, &visible, error) && chosen_gpus(options, inventory, &visible, &chosen, error) &&
              deal_out(options, inventory, options->gpus.count == 0 ? &visible : &chosen, plan, error);
    words_free(visible.list);
    words_free(chosen.list);
    return ok;
}

static bool
is_part(const char *name)
{
    return name != NULL && strncmp(name, "MIG-", 4) == 0;
}

bool
devices_may_share(const char *const *parts, int count)
{
    const char *why;
    struct nvml *nvml = nvml_open(&why);
    char(*bus_ids)[NVML_TEXT_BYTES] = xcalloc((size_t)count, sizeof(*bus_ids));
    bool may = false;
    for (int i = 0; i < count; ++i) {
        bool is_known = nvml != NULL && nvml_bus_id_of(nvml, parts[i], bus_ids[i]);
        may = may || (!is_known && count > 1);
        for (int k = 0; k < i; ++k)
            may = may || strcmp(bus_ids[k], bus_ids[i]) == 0;
    }
    nvml_close(nvml);
    free(bus_ids);
    return may;
}

/* Two ranks have parts (MIG) of what may be one GPU. NCCL refuses them, unless a variable says that they share it. */
static bool
has_parts_of_one(const struct device_plan *plan, const struct device_inventory *inventory)
{
    const char **parts = xcalloc((size_t)plan->rank_count, sizeof(*parts));
    int count = 0;
    for (int rank = 0; rank < plan->rank_count; ++rank) {
        if (is_part(plan->visible[rank]))
            parts[count++] = plan->visible[rank];
    }
    bool may = count > 1 && (inventory->may_share == NULL || inventory->may_share(parts, count));
    free(parts);
    return may;
}

/* Two ranks see one GPU. */
static bool
is_shared(const struct device_plan *plan)
{
    for (int rank = 0; rank < plan->rank_count; ++rank) {
        const char *name = plan->visible[rank];
        for (int other = 0; other < rank && name != NULL; ++other) {
            if (strcmp(name, plan->visible[other]) == 0)
                return true;
        }
    }
    return false;
}

bool
device_plan_make(const struct options *options, const struct device_inventory *inventory, struct device_plan *plan_p,
                 struct error *error)
{
    struct device_plan plan = {.softgpu = inventory->softgpu};
    struct device_inventory counted = *inventory;
    bool is_free = inventory->softgpu && inventory->softgpu_devices == NULL;
    if (inventory->softgpu && !is_free) {
        counted.gpu_count = gpu_list_index(inventory->softgpu_devices);
        if (counted.gpu_count < 1 || counted.gpu_count > MOST_SOFTGPU_DEVICES)
            return error_set(error, DDPRUN_EXIT_USAGE,
                             "SOFTGPU_DEVICES='%s' is not a number of devices that the stand-in can make; set it to 1 "
                             "to %d, or unset it",
                             inventory->softgpu_devices, MOST_SOFTGPU_DEVICES);
    }
    bool ok = is_free ? plan_free_softgpu(options, &plan, error) : plan_listed(options, &counted, &plan, error);
    plan.share_gpu = ok && (has_parts_of_one(&plan, inventory) || (options->share_gpu && is_shared(&plan)));
    if (ok)
        *plan_p = plan;
    else
        device_plan_free(&plan);
    return ok;
}

/* Does CUDA_VISIBLE_DEVICES name one GPU? Where the stand-in makes a device for each rank it means nothing. */
static bool
names_one(const struct device_inventory *inventory)
{
    const char *value = inventory->visible_devices;
    bool counts = !inventory->softgpu || inventory->softgpu_devices != NULL;
    return counts && value != NULL && value[0] != '\0' && strchr(value, ',') == NULL;
}

bool
device_plan_depends(const struct options *options, const struct device_inventory *inventory, int local_size)
{
    const char *value = inventory->visible_devices;
    bool counts = !inventory->softgpu || inventory->softgpu_devices != NULL;
    return counts && local_size > 1 && options->gpus.count == 0 && value != NULL && strchr(value, ',') != NULL;
}

bool
device_plan_make_one(const struct options *options, const struct device_inventory *inventory, int local_rank,
                     int local_size, struct device_plan *plan_p, struct error *error)
{
    struct options all = *options; /* its lists stay the caller's */
    struct device_plan plan = {0};
    bool own = names_one(inventory) && options->gpus.count == 0;
    all.rank_count = own ? 1 : local_size;
    if (!device_plan_make(&all, inventory, &plan, error))
        return false;
    char **visible = xcalloc(1, sizeof(*visible));
    for (int i = 0; plan.visible != NULL && i < plan.rank_count; ++i) {
        if (i == (own ? 0 : local_rank))
            visible[0] = plan.visible[i];
        else
            free(plan.visible[i]);
    }
    free(plan.visible);
    plan.visible = visible;
    plan.rank_count = 1;
    bool may_share = options->share_gpu || is_part(visible[0]); /* what others have is not known */
    plan.share_gpu = plan.share_gpu || (own && local_size > 1 && may_share);
    *plan_p = plan;
    return true;
}

void
device_plan_free(struct device_plan *plan)
{
    for (int rank = 0; plan->visible != NULL && rank < plan->rank_count; ++rank)
        free(plan->visible[rank]);
    free(plan->visible);
    *plan = (struct device_plan){0};
}
