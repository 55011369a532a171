/*
 * nvml.c - see nvml.h. Names, numbers and layouts are those of nvml.h, as documented in NVIDIA's NVML API reference.
 */
#include "launcher/start/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_GPUS = 1024 };

typedef void *nvml_device;    /* nvmlDevice_t */
typedef void *nvml_event_set; /* nvmlEventSet_t */

struct nvml_fabric_info { /* nvmlGpuFabricInfo_t */
    unsigned char cluster[16];
    int status; /* an nvmlReturn_t; counts in state DONE */
    unsigned clique;
    unsigned char state;
};

enum { EVENT_XID = 8 }; /* nvmlEventTypeXidCriticalError */

struct nvml_event { /* nvmlEventData_t */
    nvml_device device;
    unsigned long long type, data; /* of an Xid: its number */
    unsigned gpu_instance, compute_instance;
};

struct nvml_memory { /* nvmlMemory_t */
    unsigned long long total, free, used;
};

struct nvml_pci { /* nvmlPciInfo_t, of nvmlDeviceGetPciInfo_v3 */
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
};

/* Each returns an nvmlReturn_t, 0 is NVML_SUCCESS; NULL: this library lacks it. */
struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *count);
    int (*device)(unsigned index, nvml_device *device);
    int (*device_by_uuid)(const char *uuid, nvml_device *device);
    int (*whole_device)(nvml_device part, nvml_device *device);
    int (*name)(nvml_device device, char *name, unsigned bytes);
    int (*memory)(nvml_device device, struct nvml_memory *memory);
    int (*pci)(nvml_device device, struct nvml_pci *pci);
    int (*compute_mode)(nvml_device device, int *mode);
    int (*mig_mode)(nvml_device device, unsigned *now, unsigned *later);
    int (*fabric)(nvml_device device, struct nvml_fabric_info *info);
    int (*set_create)(nvml_event_set *set);
    int (*set_free)(nvml_event_set set);
    int (*set_wait)(nvml_event_set set, struct nvml_event *event, unsigned timeout_ms);
    int (*register_events)(nvml_device device, unsigned long long types, nvml_event_set set);
    int (*driver_release)(char *release, unsigned bytes);
    int (*cuda_version)(int *version);
};

static void
look_up_functions(struct nvml *nvml)
{
    struct {
        const char *name;
        void *function;
    } entries[] = {
        {"nvmlInit_v2", &nvml->init},
        {"nvmlShutdown", &nvml->shutdown},
        {"nvmlDeviceGetCount_v2", &nvml->count},
        {"nvmlDeviceGetHandleByIndex_v2", &nvml->device},
        {"nvmlDeviceGetHandleByUUID", &nvml->device_by_uuid},
        {"nvmlDeviceGetDeviceHandleFromMigDeviceHandle", &nvml->whole_device},
        {"nvmlDeviceGetName", &nvml->name},
        {"nvmlDeviceGetMemoryInfo", &nvml->memory},
        {"nvmlDeviceGetPciInfo_v3", &nvml->pci},
        {"nvmlDeviceGetComputeMode", &nvml->compute_mode},
        {"nvmlDeviceGetMigMode", &nvml->mig_mode},
        {"nvmlDeviceGetGpuFabricInfo", &nvml->fabric},
        {"nvmlEventSetCreate", &nvml->set_create},
        {"nvmlEventSetFree", &nvml->set_free},
        {"nvmlEventSetWait_v2", &nvml->set_wait},
        {"nvmlDeviceRegisterEvents", &nvml->register_events},
        {"nvmlSystemGetDriverVersion", &nvml->driver_release},
        {"nvmlSystemGetCudaDriverVersion_v2", &nvml->cuda_version},
    };
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); ++i) {
        void *found = dlsym(nvml->library, entries[i].name);
        memcpy(entries[i].function, &found, sizeof(found)); /* the way of dlsym(3) to get at a function */
    }
}

struct nvml *
nvml_open(const char **why)
{
    struct nvml *nvml = calloc(1, sizeof(*nvml));
    *why = "no memory";
    if (nvml == NULL)
        return NULL;
    nvml->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    *why = "there is no libnvidia-ml.so.1, which comes with the driver";
    if (nvml->library != NULL) {
        look_up_functions(nvml);
        *why = "libnvidia-ml.so.1 is there, but finds no driver that runs";
        if (nvml->init != NULL && nvml->shutdown != NULL && nvml->init() == 0)
            return nvml;
        dlclose(nvml->library);
    }
    free(nvml);
    return NULL;
}

void
nvml_close(struct nvml *nvml)
{
    if (nvml == NULL)
        return;
    nvml->shutdown();
    dlclose(nvml->library);
    free(nvml);
}

int
nvml_gpu_count(const struct nvml *nvml)
{
    unsigned count;
    return nvml->count != NULL && nvml->count(&count) == 0 && count <= MOST_GPUS ? (int)count : -1;
}

/* "00000000:3B:00.0" is what NVML writes, "0000:3b:00.0" what the kernel does. */
static bool
read_bus_id(const struct nvml *nvml, nvml_device device, char bus_id[NVML_TEXT_BYTES])
{
    struct nvml_pci pci = {0};
    if (nvml->pci == NULL || nvml->pci(device, &pci) != 0)
        return false;
    snprintf(bus_id, NVML_TEXT_BYTES, "%04x:%02x:%02x.0", pci.domain & 0xffffffu, pci.bus & 0xffu, pci.device & 0x1fu);
    return true;
}

static enum nvml_fabric
read_fabric(const struct nvml *nvml, nvml_device device)
{
    struct nvml_fabric_info info = {.status = 0};
    if (nvml->fabric == NULL || nvml->fabric(device, &info) != 0 || info.state > NVML_FABRIC_DONE)
        return NVML_FABRIC_NONE;
    bool has_failed = info.state == NVML_FABRIC_DONE && info.status != 0;
    return has_failed ? NVML_FABRIC_NOT_STARTED : (enum nvml_fabric)info.state;
}

bool
nvml_gpu_read(const struct nvml *nvml, int index, struct nvml_gpu *gpu_p)
{
    nvml_device device;
    if (nvml->device == NULL || nvml->device((unsigned)index, &device) != 0)
        return false;
    struct nvml_gpu gpu = {.compute_mode = NVML_MODE_UNKNOWN};
    struct nvml_memory memory;
    int mode;
    unsigned now = 0, later = 0;
    if (nvml->name == NULL || nvml->name(device, gpu.name, sizeof(gpu.name)) != 0)
        gpu.name[0] = '\0';
    gpu.name[sizeof(gpu.name) - 1] = '\0';
    if (!read_bus_id(nvml, device, gpu.bus_id))
        gpu.bus_id[0] = '\0';
    if (nvml->memory != NULL && nvml->memory(device, &memory) == 0)
        gpu.memory_bytes = memory.total;
    if (nvml->compute_mode != NULL && nvml->compute_mode(device, &mode) == 0 && mode >= 0 && mode <= 3)
        gpu.compute_mode = (enum nvml_compute_mode)mode;
    gpu.is_divided = nvml->mig_mode != NULL && nvml->mig_mode(device, &now, &later) == 0 && now == 1;
    gpu.fabric = read_fabric(nvml, device);
    *gpu_p = gpu;
    return true;
}

bool
nvml_bus_id_of(const struct nvml *nvml, const char *uuid, char bus_id[NVML_TEXT_BYTES])
{
    nvml_device device;
    if (nvml->device_by_uuid == NULL || nvml->device_by_uuid(uuid, &device) != 0)
        return false;
    if (strncmp(uuid, "MIG-", 4) == 0 && (nvml->whole_device == NULL || nvml->whole_device(device, &device) != 0))
        return false;
    return read_bus_id(nvml, device, bus_id);
}

/* ---- Xids ---- */

struct nvml_events {
    const struct nvml *nvml;
    nvml_event_set set;
};

static bool
is_among(const char *bus_id, char (*bus_ids)[NVML_TEXT_BYTES], int count)
{
    for (int i = 0; i < count; ++i) {
        if (strcmp(bus_ids[i], bus_id) == 0)
            return true;
    }
    return false;
}

/* How many GPUs have been registered. */
static int
register_all(const struct nvml_events *events, char (*bus_ids)[NVML_TEXT_BYTES], int count)
{
    const struct nvml *nvml = events->nvml;
    int registered = 0, gpus = nvml_gpu_count(nvml);
    for (int i = 0; i < gpus && nvml->device != NULL; ++i) {
        nvml_device device;
        char bus_id[NVML_TEXT_BYTES];
        if (nvml->device((unsigned)i, &device) == 0 && read_bus_id(nvml, device, bus_id) &&
            is_among(bus_id, bus_ids, count))
            registered += nvml->register_events(device, EVENT_XID, events->set) == 0;
    }
    return registered;
}

struct nvml_events *
nvml_events_open(const struct nvml *nvml, char (*bus_ids)[NVML_TEXT_BYTES], int count)
{
    bool has_calls = nvml->set_create != NULL && nvml->set_free != NULL && nvml->set_wait != NULL;
    struct nvml_events *events = has_calls && nvml->register_events != NULL ? calloc(1, sizeof(*events)) : NULL;
    if (events == NULL)
        return NULL;
    events->nvml = nvml;
    if (nvml->set_create(&events->set) != 0) {
        free(events);
        return NULL;
    }
    if (register_all(events, bus_ids, count) > 0)
        return events;
    nvml_events_close(events);
    return NULL;
}

bool
nvml_events_next(struct nvml_events *events, char bus_id[NVML_TEXT_BYTES], unsigned long long *xid_p)
{
    struct nvml_event event = {0};
    if (events->nvml->set_wait(events->set, &event, 0) != 0 || (event.type & EVENT_XID) == 0)
        return false;
    if (!read_bus_id(events->nvml, event.device, bus_id))
        snprintf(bus_id, NVML_TEXT_BYTES, "unknown");
    *xid_p = event.data;
    return true;
}

void
nvml_events_close(struct nvml_events *events)
{
    if (events == NULL)
        return;
    events->nvml->set_free(events->set);
    free(events);
}

void
nvml_driver(const struct nvml *nvml, char release[NVML_TEXT_BYTES], int *cuda_version)
{
    release[0] = '\0';
    *cuda_version = 0;
    if (nvml->driver_release != NULL && nvml->driver_release(release, NVML_TEXT_BYTES) != 0)
        release[0] = '\0';
    release[NVML_TEXT_BYTES - 1] = '\0';
    if (nvml->cuda_version != NULL && nvml->cuda_version(cuda_version) != 0)
        *cuda_version = 0;
}
