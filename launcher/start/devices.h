/*
 * devices.h - which GPU each rank gets to see, on real GPUs and on the stand-in.
 *
 * devices_count_gpus() asks the machine; device_plan_make() is pure and decides, from what it is given, what the ranks
 * find in CUDA_VISIBLE_DEVICES. Called by main() before anything is started.
 */
#ifndef DDPRUN_LAUNCHER_START_DEVICES_H
#define DDPRUN_LAUNCHER_START_DEVICES_H

#include "launcher/common/error.h"
#include "launcher/options/options.h"
#include "launcher/start/program.h"

/* What is there. */
struct device_inventory {
    bool softgpu;
    int gpu_count;               /* GPUs of the machine; not used on the stand-in */
    const char *visible_devices; /* inherited CUDA_VISIBLE_DEVICES, or NULL; the stand-in's with SOFTGPU_DEVICES only */
    const char *softgpu_devices; /* inherited SOFTGPU_DEVICES, or NULL */
    /* Whether two of these parts of GPUs, by UUID (MIG-...), may be of one GPU; NULL: that is not known. */
    bool (*may_share)(const char *const *parts, int count);
};

/* Who gets what. Release with device_plan_free(). */
struct device_plan {
    bool softgpu;
    bool share_gpu;   /* several ranks see the same GPU, by --share-gpu, or parts of one (MIG) */
    int nccl_version; /* as ncclGetVersion has it; 0: not known, or of no matter (job_prepare.c) */
    int rank_count;
    char **visible;       /* visible[rank]: its CUDA_VISIBLE_DEVICES; NULL: the variable is removed */
    bool is_open;         /* preliminary: which GPU it is depends on what other ranks of the host see */
    bool one_device_each; /* stand-in without SOFTGPU_DEVICES: each rank is given SOFTGPU_DEVICES=1 */
};

/*
 * Counts this machine's GPUs with NVML, or by their device files where the driver came without NVML. Error
 * (DDPRUN_EXIT_USAGE): no GPU, saying what was looked for; `program` is named in it.
 */
bool devices_count_gpus(const char *program, int *gpu_count, struct error *error) MUST_USE;

/* For struct device_inventory: asks NVML. */
bool devices_may_share(const char *const *parts, int count);

/* Error (DDPRUN_EXIT_USAGE): --device gpu, and a program that was built for the stand-in. Otherwise such a program
 * runs on the stand-in, and any with --device softgpu. */
bool devices_check_program(const struct options *options, const struct program *program, struct error *error) MUST_USE;

/* Error (DDPRUN_EXIT_USAGE): more ranks than GPUs, a GPU that does not exist, a variable that cannot be understood.
 */
bool device_plan_make(const struct options *options, const struct device_inventory *inventory, struct device_plan *plan,
                      struct error *error) MUST_USE;

/*
 * The same for one rank of several on this host, whichever launcher starts the others: a plan with one entry, of the
 * GPU with the number `local_rank`. Where CUDA_VISIBLE_DEVICES leaves one GPU it is that one: the scheduler gave each
 * task its own.
 */
bool device_plan_make_one(const struct options *options, const struct device_inventory *inventory, int local_rank,
                          int local_size, struct device_plan *plan, struct error *error) MUST_USE;

/* Whether CUDA_VISIBLE_DEVICES names several GPUs, perhaps others for other ranks of this host: which one the rank gets
 * is known when ranks have compared their lists. */
bool device_plan_depends(const struct options *options, const struct device_inventory *inventory, int local_size);

void device_plan_free(struct device_plan *plan);

#endif
