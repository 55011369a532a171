/*
 * nvml.h - what NVIDIA's management library tells of this machine's GPUs. It comes with the driver, is opened here and
 * never linked.
 *
 * Called by devices.c (how many), placement.c (where) and doctor/ (everything). Main thread. Every function answers
 * for a library that lacks the entry as if the GPU did not know.
 */
#ifndef DDPRUN_LAUNCHER_START_NVML_H
#define DDPRUN_LAUNCHER_START_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nvml;

enum { NVML_TEXT_BYTES = 96 }; /* NVML_DEVICE_UUID_V2_BUFFER_SIZE and NVML_DEVICE_NAME_V2_BUFFER_SIZE are 96 */

/* nvmlComputeMode_t of nvml.h */
enum nvml_compute_mode {
    NVML_MODE_DEFAULT = 0,
    NVML_MODE_EXCLUSIVE_THREAD = 1,
    NVML_MODE_PROHIBITED = 2,
    NVML_MODE_EXCLUSIVE_PROCESS = 3,
    NVML_MODE_UNKNOWN = -1,
};

/* nvmlGpuFabricState_t of nvml.h: how far the Fabric Manager has come with a GPU beside an NVSwitch. */
enum nvml_fabric {
    NVML_FABRIC_NONE = 0,
    NVML_FABRIC_NOT_STARTED = 1,
    NVML_FABRIC_IN_PROGRESS = 2,
    NVML_FABRIC_DONE = 3
};

struct nvml_gpu {
    char name[NVML_TEXT_BYTES];   /* "" where it is not known; so are the others */
    char bus_id[NVML_TEXT_BYTES]; /* "0000:3b:00.0", as the kernel writes it */
    uint64_t memory_bytes;        /* 0: not known */
    enum nvml_compute_mode compute_mode;
    bool is_divided; /* MIG mode is on */
    enum nvml_fabric fabric;
};

/* NULL: no library, or it found no driver; *why then says which, as text that lasts as long as the process. */
struct nvml *nvml_open(const char **why);
void nvml_close(struct nvml *nvml);

/* -1: it would not say. */
int nvml_gpu_count(const struct nvml *nvml);

/* GPU `index`, in the order of the bus. False: no such GPU. */
bool nvml_gpu_read(const struct nvml *nvml, int index, struct nvml_gpu *gpu) __attribute__((warn_unused_result));

/* The bus id of the GPU with this UUID (GPU-...), or of the one that holds this part of one (MIG-...). */
bool nvml_bus_id_of(const struct nvml *nvml, const char *uuid, char bus_id[NVML_TEXT_BYTES])
    __attribute__((warn_unused_result));

/* ---- Xids: what the driver writes into the kernel's log of a GPU that has failed, or of a program's fault ---- */
struct nvml_events;

/* From now on the Xids of these GPUs are kept: bus_ids[count], as of struct nvml_gpu, of which those that are empty or
 * not there count for nothing. NULL: none can be. nvml_events_close() before nvml_close(). */
struct nvml_events *nvml_events_open(const struct nvml *nvml, char (*bus_ids)[NVML_TEXT_BYTES], int count);
/* The next that has come, with its GPU; false: none has. Does not wait. */
bool nvml_events_next(struct nvml_events *events, char bus_id[NVML_TEXT_BYTES], unsigned long long *xid);
void nvml_events_close(struct nvml_events *events);

/* The driver's release, such as "580.65.06", and the CUDA version that it serves, 13000 for 13.0; "" and 0: unknown. */
void nvml_driver(const struct nvml *nvml, char release[NVML_TEXT_BYTES], int *cuda_version);

#endif
