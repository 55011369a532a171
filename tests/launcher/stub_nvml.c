/*
 * stub_nvml.c - plays libnvidia-ml.so.1, and by another name libcuda.so.1, for run.sh and doctor.sh: a machine with
 * $STUB_GPUS GPUs, a driver that serves CUDA $STUB_CUDA (13000), GPUs in compute mode $STUB_MODE, which are called
 * $STUB_NAME, with a number after it if $STUB_DIFFERENT is set; with $STUB_CRASH a library whose first call ends the
 * process. It loads the images whose first bytes are $STUB_LOADS. The fabric's state is $STUB_FABRIC.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* found by name, and called by no source */
#define EXPORT __attribute__((visibility("default")))

struct memory {
    unsigned long long total, free, used;
};

struct pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
};

static char devices[64]; /* the address of each is its handle */

static unsigned
setting(const char *name, unsigned otherwise)
{
    const char *value = getenv(name);
    return value != NULL ? (unsigned)atoi(value) : otherwise;
}

#define ANSWERS(call, parameters, ...) \
    EXPORT int call parameters         \
    {                                  \
        __VA_ARGS__;                   \
    }
#define TELLS(call, parameters, ...) ANSWERS(call, parameters, __VA_ARGS__; return 0)

ANSWERS(nvmlInit_v2, (void), return getenv("STUB_CRASH") != NULL ? raise(SIGSEGV) : 0)
TELLS(nvmlShutdown, (void), (void)0)
TELLS(nvmlDeviceGetCount_v2, (unsigned *count), *count = setting("STUB_GPUS", 0))
ANSWERS(nvmlDeviceGetHandleByIndex_v2, (unsigned index, void **device), *device = &devices[index];
        return index < setting("STUB_GPUS", 0) ? 0 : 2)
/* GPU-<index> */
ANSWERS(nvmlDeviceGetHandleByUUID, (const char *uuid, void **device), unsigned index;
        return sscanf(uuid, "GPU-%u", &index) == 1 ? nvmlDeviceGetHandleByIndex_v2(index, device) : 2)

EXPORT int
nvmlDeviceGetName(void *device, char *name, unsigned bytes)
{
    const char *wanted = getenv("STUB_NAME");
    int index = getenv("STUB_DIFFERENT") != NULL ? (int)((char *)device - devices) : 0;
    return snprintf(name, bytes, "%s%.*d", wanted != NULL ? wanted : "Stub GPU", index > 0, index) < (int)bytes ? 0 : 7;
}

TELLS(nvmlDeviceGetMemoryInfo, (void *device, struct memory *memory), (void)device;
      *memory = (struct memory){.total = 80ull << 30})
TELLS(nvmlDeviceGetPciInfo_v3, (void *device, struct pci *pci),
      *pci = (struct pci){.bus = 0x10 + (unsigned)((char *)device - devices)})
TELLS(nvmlDeviceGetComputeMode, (void *device, int *mode), (void)device; *mode = (int)setting("STUB_MODE", 0))

struct fabric {
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
};

TELLS(nvmlDeviceGetGpuFabricInfo, (void *device, struct fabric *fabric), (void)device;
      *fabric = (struct fabric){.state = (unsigned char)setting("STUB_FABRIC", 0)})

/* One Xid: $STUB_XID, of the GPU with the number $STUB_XID_GPU, once there is a file $STUB_XID_WHEN. */
static unsigned registered; /* GPUs, as bits */

TELLS(nvmlEventSetCreate, (void **set), *set = &registered)
TELLS(nvmlEventSetFree, (void *set), (void)set)
TELLS(nvmlDeviceRegisterEvents, (void *device, unsigned long long types, void *set), (void)set;
      registered |= types == 8 ? 1U << ((char *)device - devices) : 0)

struct event {
    void *device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

EXPORT int
nvmlEventSetWait_v2(void *set, struct event *event, unsigned timeout_ms)
{
    enum { TIMEOUT = 10, XID = 8 };
    static bool is_told;
    unsigned gpu = setting("STUB_XID_GPU", 0);
    const char *when = getenv("STUB_XID_WHEN");
    if (set != &registered || timeout_ms != 0 || is_told || when == NULL || access(when, F_OK) != 0)
        return TIMEOUT;
    if ((registered & 1U << gpu) == 0)
        return TIMEOUT;
    is_told = true;
    *event = (struct event){.device = &devices[gpu], .type = XID, .data = setting("STUB_XID", 0)};
    return 0;
}

ANSWERS(nvmlSystemGetDriverVersion, (char *release, unsigned bytes),
        return snprintf(release, bytes, "580.65.06") < (int)bytes ? 0 : 7)
TELLS(nvmlSystemGetCudaDriverVersion_v2, (int *version), *version = (int)setting("STUB_CUDA", 13000))
ANSWERS(cuInit, (unsigned flags), (void)flags; return (int)setting("STUB_INIT", 0))
ANSWERS(cuDriverGetVersion, (int *version), return nvmlSystemGetCudaDriverVersion_v2(version))
TELLS(cuDeviceGetCount, (int *count), *count = (int)setting("STUB_GPUS", 0))
TELLS(cuDevicePrimaryCtxRetain, (void **context, int device), *context = &devices[device])
TELLS(cuCtxSetCurrent, (void *context), (void)context)

enum { NO_BINARY_FOR_GPU = 209 };

EXPORT int
cuModuleLoadData(void **module, const void *image)
{
    const char *loads = getenv("STUB_LOADS");
    *module = devices;
    return loads != NULL && strncmp(image, loads, strlen(loads)) == 0 ? 0 : NO_BINARY_FOR_GPU;
}
