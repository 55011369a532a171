/*
 * gpus.c - the doctor's look at the driver and the GPUs, through NVML and through the driver itself.
 *
 * Both are opened in a child: a driver whose kernel module does not fit can crash or hang in its first call.
 */
#include "base/kernel_files.h"
#include "launcher/start/child.h"
#include "launcher/start/nvml.h"
#include "tools/common/owned.h"
#include "tools/doctor/examine.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* CUDA 12.4, of release 550, brought the call by which kernels' arguments are read; release 580 serves CUDA 13. */
enum { LEAST_CUDA = 12040, WANTED_CUDA = 13000, LIMIT_S = 60 };

static const char install_driver[] =
    "install NVIDIA's driver, release 580 or newer (550 for programs of CUDA 12); in a container start it with access "
    "to the GPUs (--gpus all)";
static const char restart[] = "see that nvidia-smi works; restart the machine after an update of the driver";

/* What a child was told, in pages that it shares with the doctor. */
struct answers {
    char none[256]; /* why there is no NVML, or no driver; "": there is */
    char release[NVML_TEXT_BYTES];
    int cuda, count;
    int prohibited, exclusive, divided; /* how many of these */
    int switched, unready;              /* how many are beside an NVSwitch; and of these, not ready */
    char described[8192];               /* "0 NVIDIA H200 (139.8 GiB, 0000:3b:00.0), ..." */
    int devices;                        /* that the driver finds */
    int refused;                        /* the error of cuInit; 0: none */
    char kernels[PATH_MAX]; /* in: where ddprun's kernels are; out: the file that the driver loads, or should */
    char lacks[64];         /* the function without which the driver loads no kernels; "": it has all */
    int unloaded;           /* the error of loading them on the first device; 0: none, or they were not tried */
};

/* ---- in the child ---- */

static void
add_gpu(struct answers *to, const struct nvml_gpu *gpu)
{
    size_t length = strlen(to->described);
    to->prohibited += gpu->compute_mode == NVML_MODE_PROHIBITED;
    to->exclusive +=
        gpu->compute_mode == NVML_MODE_EXCLUSIVE_PROCESS || gpu->compute_mode == NVML_MODE_EXCLUSIVE_THREAD;
    to->divided += gpu->is_divided;
    to->switched += gpu->fabric != NVML_FABRIC_NONE;
    to->unready += gpu->fabric == NVML_FABRIC_NOT_STARTED || gpu->fabric == NVML_FABRIC_IN_PROGRESS;
    snprintf(to->described + length, sizeof(to->described) - length, "%s%d %s (%.1f GiB, %s)", length > 0 ? ", " : "",
             to->count++, gpu->name[0] != '\0' ? gpu->name : "(no name)", (double)gpu->memory_bytes / (1 << 30),
             gpu->bus_id[0] != '\0' ? gpu->bus_id : "-");
}

static int
ask_nvml(void *context)
{
    struct answers *to = context;
    const char *why;
    struct nvml *nvml = nvml_open(&why);
    if (nvml == NULL) {
        snprintf(to->none, sizeof(to->none), "%s", why);
        return 0;
    }
    nvml_driver(nvml, to->release, &to->cuda);
    for (int i = 0, count = nvml_gpu_count(nvml); i < count; ++i) {
        struct nvml_gpu gpu = {.compute_mode = NVML_MODE_UNKNOWN};
        if (!nvml_gpu_read(nvml, i, &gpu))
            gpu = (struct nvml_gpu){.compute_mode = NVML_MODE_UNKNOWN};
        add_gpu(to, &gpu);
    }
    return 0;
}

/* Functions of the driver that the doctor calls; of their results, 0 is success. */
struct functions {
    int (*version)(int *version);
    int (*retain)(void **context, int device);
    int (*enter)(void *context);
    int (*load)(void **module, const void *image);
};

/* The name of a function that the driver lacks, or NULL: all are in *functions. */
static const char *
find_functions(void *driver, struct functions *functions)
{
    const struct {
        const char *name;
        void *to;
    } wanted[] = {
        {"cuDriverGetVersion", &functions->version},
        {"cuDevicePrimaryCtxRetain", &functions->retain},
        {"cuCtxSetCurrent", &functions->enter},
        {"cuModuleLoadData", &functions->load},
    };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); ++i) {
        void *function = dlsym(driver, wanted[i].name);
        if (function == NULL)
            return wanted[i].name;
        memcpy(wanted[i].to, &function, sizeof(function));
    }
    return NULL;
}

/* The driver's error, or -1: there is nothing to load. */
static int
load_file(const struct functions *functions, const char *path)
{
    OWNED_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat file;
    void *module;
    if (fd < 0 || fstat(fd, &file) != 0 || file.st_size == 0)
        return -1;
    const void *image = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    return image == MAP_FAILED ? -1 : functions->load(&module, image); /* mapped as long as this child lives */
}

/* As the engine loads them, on the first device. */
static void
load_kernels(void *driver, struct answers *to)
{
    struct functions functions;
    struct kernel_files files;
    int version = 0;
    void *of_device;
    if (to->kernels[0] == '\0' || to->devices <= 0)
        return;
    const char *lacks = find_functions(driver, &functions);
    if (lacks != NULL) {
        snprintf(to->lacks, sizeof(to->lacks), "%s", lacks);
        return;
    }
    char path[PATH_MAX];
    memcpy(path, to->kernels, sizeof(path));
    (void)functions.version(&version);
    kernel_files_find(path, version, &files);
    to->unloaded = functions.retain(&of_device, 0);
    if (to->unloaded == 0)
        to->unloaded = functions.enter(of_device);
    if (to->unloaded != 0)
        return;
    snprintf(to->kernels, sizeof(to->kernels), "%s", files.paths[0]); /* that this driver's release should load */
    to->unloaded = load_file(&functions, files.paths[0]);
    if (to->unloaded == 0 || files.paths[1] == NULL || load_file(&functions, files.paths[1]) != 0)
        return;
    to->unloaded = 0;
    snprintf(to->kernels, sizeof(to->kernels), "%s", files.paths[1]);
}

/* Loads what the trainer's cudart loads, by the same name. */
static int
ask_driver(void *context)
{
    struct answers *to = context;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    int (*init)(unsigned flags) = NULL, (*count)(int *count) = NULL;
    if (driver == NULL) {
        snprintf(to->none, sizeof(to->none), "%s", dlerror());
        return 0;
    }
    *(void **)&init = dlsym(driver, "cuInit");
    *(void **)&count = dlsym(driver, "cuDeviceGetCount");
    if (init == NULL || count == NULL)
        snprintf(to->none, sizeof(to->none), "it lacks cuInit or cuDeviceGetCount");
    else if ((to->refused = init(0)) == 0)
        (void)count(&to->devices);
    if (to->refused == 0)
        load_kernels(driver, to);
    return 0;
}

/* ---- what is made of it ---- */

enum { FAILED_BYTES = 64 };

/* A child's answers, for munmap(). NULL: `failed` says how it ended. `kernels`: a file that it tries to load, or NULL.
 */
static struct answers *
ask(int (*function)(void *context), const char *kernels, char failed[FAILED_BYTES])
{
    OWNED struct child_result *result = xcalloc(1, sizeof(*result));
    struct answers *answers = mmap(NULL, sizeof(*answers), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (answers == MAP_FAILED) {
        snprintf(failed, FAILED_BYTES, "%s", strerror(errno));
        return NULL;
    }
    snprintf(answers->kernels, sizeof(answers->kernels), "%s", kernels != NULL ? kernels : "");
    child_call(function, answers, LIMIT_S, result);
    if (result->end == CHILD_EXITED && result->code == 0)
        return answers;
    (void)child_end_text(result, failed);
    munmap(answers, sizeof(*answers));
    return NULL;
}

/* A job on the stand-in does without GPUs, whatever is wrong with them. */
static enum finding_state
unless_softgpu(const struct examination *it, enum finding_state state)
{
    return it->softgpu ? FINDING_NOTE : state;
}

static void
judge_version(struct examination *it, const struct answers *told)
{
    static const char update[] = "update NVIDIA's driver to release 580 or newer (550 for programs of CUDA 12)";
    bool is_of_12 = ANY(library, it->loaded.libraries, it->loaded.count,
                        strncmp(library->name, "libcudart.so.12", strlen("libcudart.so.12")) == 0);
    const char *release = told->release;
    int major = told->cuda / 1000, minor = told->cuda % 1000 / 10;
    if (told->cuda <= 0)
        findings_say(it, unless_softgpu(it, FINDING_WARNING), "driver", update,
                     "release %s does not report its CUDA version", release);
    else if (told->cuda < LEAST_CUDA)
        findings_say(it, unless_softgpu(it, FINDING_PROBLEM), "driver", update,
                     "release %s serves CUDA %d.%d only; ddprun reads kernels' arguments by a call of CUDA 12.4",
                     release, major, minor);
    else if (told->cuda < WANTED_CUDA && !is_of_12)
        findings_say(
            it, unless_softgpu(it, FINDING_WARNING), "driver",
            "ignore this if the program is built with that CUDA version; else update the driver to release 580 or "
            "newer",
            "release %s serves CUDA %d.%d; programs built with CUDA 13 do not run on it", release, major, minor);
    else
        findings_ok(it, "driver", "release %s, serves CUDA %d.%d", release, major, minor);
}

static void
judge_gpus(struct examination *it, const struct answers *gpus)
{
    findings_ok(it, "GPUs", "%d: %s", gpus->count, gpus->described);
    if (gpus->prohibited > 0)
        findings_say(it, unless_softgpu(it, FINDING_PROBLEM), "compute mode", "nvidia-smi -c DEFAULT, as root",
                     "%d of the GPUs do not allow compute programs (mode PROHIBITED)", gpus->prohibited);
    if (gpus->exclusive > 0)
        findings_say(it, FINDING_NOTE, "compute mode", "nvidia-smi -c DEFAULT, as root, if --share-gpu is wanted",
                     "%d of the GPUs serve one process at a time (mode EXCLUSIVE)", gpus->exclusive);
    if (gpus->divided > 0)
        findings_say(it, FINDING_NOTE, "MIG",
                     "name the instances, one for each rank: --gpus MIG-...,MIG-... (nvidia-smi -L lists them); those "
                     "of one GPU communicate as with --share-gpu, slowly",
                     "%d of the GPUs are divided into MIG instances", gpus->divided);
}

/* What NVLS needs, by which NCCL adds in the switch: without it NCCL's start fails, or hangs. */
static void
judge_fabric(struct examination *it, const struct answers *gpus)
{
    if (gpus->switched == 0)
        return;
    if (gpus->unready > 0)
        findings_say(it, unless_softgpu(it, FINDING_WARNING), "NVSwitch",
                     "start nvidia-fabricmanager, of the driver's own release; until then NCCL_NVLS_ENABLE=0",
                     "of %d GPUs, %d are not ready in the fabric", gpus->switched, gpus->unready);
    else
        findings_ok(it, "NVSwitch", "%d GPUs are ready in the fabric", gpus->switched);
    if (access("/dev/nvidia-caps", F_OK) != 0)
        findings_say(it, FINDING_NOTE, "/dev/nvidia-caps",
                     "give the container /dev/nvidia-caps, or set NCCL_NVLS_ENABLE=0 if NCCL does not start",
                     "it is not there, and NCCL's NVLS needs it");
}

/* What the answers of cuInit mean that users have met; the driver's own words need one that serves. */
static const struct refusal {
    int error;
    const char *means, *advice;
} refusals[] = {
    {34, "it is the linker's stub of a CUDA toolkit",
     "put the driver's own library on the loader's path (ldconfig), before any stubs/ folder of a toolkit"},
    {802, "the GPUs are not ready: on machines with NVSwitch the Fabric Manager starts them",
     "start nvidia-fabricmanager, of the driver's own release"},
    {803, "the library and the kernel module are of different releases",
     "restart the machine after an update of the driver; in a container take the host's library"},
    {804, "a library of CUDA's forward compatibility, which this GPU does not support",
     "take the folder compat/ of the toolkit off LD_LIBRARY_PATH"},
    {0, "the driver's library exists but does not work",
     "check that nvidia-smi works, and that /dev/nvidia* exist and you may open them; in a container start it with "
     "--gpus all"},
};

static void
judge_kernels(struct examination *it, const struct answers *told)
{
    if (told->lacks[0] != '\0')
        findings_say(it, FINDING_WARNING, "kernels for GPUs", install_driver, "the driver lacks %s, which loads them",
                     told->lacks);
    else if (told->unloaded == 0)
        findings_ok(it, "kernels for GPUs", "the driver loads %s", told->kernels);
    else
        findings_say(it, FINDING_WARNING, "kernels for GPUs",
                     "use a package of ddprun that has code for this GPU; without it buckets are packed by copies, "
                     "memory is hashed and compared on the host, and --compress does not work",
                     "the driver does not load %s: error %d", told->kernels, told->unloaded);
}

enum { NO_DEVICE = 100 }; /* of cuInit: a driver, and no GPU */

/* Asks the driver for what a program gets. False: there is none, or it has no GPU. `known`: GPUs that NVML knows, -1:
 * there is no NVML. */
static bool
examine_driver(struct examination *it, int known)
{
    enum finding_state state = unless_softgpu(it, FINDING_PROBLEM);
    char failed[FAILED_BYTES];
    const char *kernels = it->is_installed && !it->softgpu ? it->found.kernels : NULL;
    struct answers *told = ask(ask_driver, kernels, failed);
    bool has_none = told != NULL && told->none[0] != '\0', is_there = true;
    const struct refusal *refusal = refusals;
    while (told != NULL && refusal->error != told->refused && refusal->error != 0)
        ++refusal;
    if (told == NULL)
        findings_say(it, state, "libcuda.so.1", restart, "opening the driver failed: %s", failed);
    else if (known < 0 && (has_none || told->refused == NO_DEVICE || (told->refused == 0 && told->devices <= 0)))
        is_there = false;
    else if (has_none)
        findings_say(it, state, "libcuda.so.1", refusals[0].advice, "%s", told->none);
    else if (told->refused != 0)
        findings_say(it, state, "libcuda.so.1", refusal->advice, "cuInit failed with error %d: %s", told->refused,
                     refusal->means);
    else if (known >= 0 && told->devices != known && getenv("CUDA_VISIBLE_DEVICES") == NULL)
        findings_say(it, FINDING_WARNING, "libcuda.so.1", "name the GPUs to use by --gpus",
                     "CUDA finds %d GPUs, NVML finds %d", told->devices, known);
    else
        findings_ok(it, "libcuda.so.1", "opens, and finds %d GPU%s", told->devices, told->devices == 1 ? "" : "s");
    if (told != NULL && kernels != NULL && told->devices > 0)
        judge_kernels(it, told);
    if (told != NULL && known < 0)
        it->gpu_count = told->devices;
    if (told != NULL)
        munmap(told, sizeof(*told));
    return is_there;
}

static void
say_no_gpu(struct examination *it, const char *why)
{
    /* What shows nothing of CUDA may start a program of softgpu-cc's, and a job has to be told. */
    bool may_be_wrapper = it->options->device == DEVICE_AUTO && it->has_program && !trainer_shows_cuda(it);
    if (it->needs_gpu && may_be_wrapper)
        findings_say(it, FINDING_PROBLEM, "GPUs",
                     "add --device softgpu if it starts a program that softgpu-cc has built; otherwise install "
                     "NVIDIA's driver",
                     "none: %s; without --device softgpu ranks need one", why);
    else if (it->needs_gpu)
        findings_say(it, FINDING_PROBLEM, "GPUs", install_driver, "none: %s; the program needs one", why);
    else if (it->softgpu)
        findings_ok(it, "GPUs", "no GPU; the stand-in does not need one (%s)", why);
    else
        findings_say(it, FINDING_NOTE, "GPUs",
                     "ignore this for programs built by softgpu-cc; for others install NVIDIA's driver", "none: %s",
                     why);
}

void
examine_gpus(struct examination *it)
{
    char failed[FAILED_BYTES];
    struct answers *told = ask(ask_nvml, NULL, failed);
    if (told == NULL) {
        findings_say(it, unless_softgpu(it, FINDING_PROBLEM), "driver", restart, "the query by NVML failed: %s",
                     failed);
        return;
    }
    if (told->none[0] != '\0') {
        if (!examine_driver(it, -1))
            say_no_gpu(it, told->none);
    } else {
        it->gpu_count = told->count;
        judge_version(it, told);
        if (told->count == 0) {
            say_no_gpu(it, "the driver works, but finds no GPU");
        } else {
            judge_gpus(it, told);
            judge_fabric(it, told);
            (void)examine_driver(it, told->count);
        }
    }
    munmap(told, sizeof(*told));
}
