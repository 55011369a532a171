/*
 * gpus.c - the doctor's look at the driver and the GPUs, through NVML and through the driver itself.
 *
 * Both are opened in a child: a driver whose kernel module does not fit can crash or hang in its first call.
 */
#include "launcher/start/child.h"
#include "launcher/start/nvml.h"
#include "tools/common/owned.h"
#include "tools/doctor/examine.h"

#include <dlfcn.h>
#include <inttypes.h>

/* CUDA 12.4 brought the call by which kernels' arguments are read; release 580 serves CUDA 13. */
enum { LEAST_CUDA = 12040, WANTED_CUDA = 13000, LIMIT_S = 60 };

static const char install_driver[] =
    "install NVIDIA's driver, release 580 or newer; in a container start it with access to the GPUs (--gpus all)";
static const char restart[] = "see that nvidia-smi works; restart the machine after an update of the driver";

/* ---- in the child: lines "release R", "cuda N", "gpu MODE MIG BYTES BUS NAME", or "none WHY" ---- */

static int
ask_nvml(void *context)
{
    (void)context;
    const char *why;
    struct nvml *nvml = nvml_open(&why);
    if (nvml == NULL) {
        printf("none %s\n", why);
        return 0;
    }
    char release[NVML_TEXT_BYTES];
    int cuda_version;
    nvml_driver(nvml, release, &cuda_version);
    printf("release %s\ncuda %d\n", release, cuda_version);
    int count = nvml_gpu_count(nvml);
    for (int i = 0; i < count; ++i) {
        struct nvml_gpu gpu;
        if (nvml_gpu_read(nvml, i, &gpu))
            printf("gpu %d %d %" PRIu64 " %s %s\n", (int)gpu.compute_mode, gpu.is_divided, gpu.memory_bytes,
                   gpu.bus_id[0] != '\0' ? gpu.bus_id : "-", gpu.name[0] != '\0' ? gpu.name : "(no name)");
        else
            printf("gpu -1 0 0 - (no name)\n");
    }
    return 0;
}

/* A line "devices N", or "refuses ERROR", or "none WHY". Loads what the trainer's cudart loads, by the same
 * name. */
static int
ask_driver(void *context)
{
    (void)context;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver == NULL) {
        printf("none %s\n", dlerror());
        return 0;
    }
    int (*init)(unsigned flags), (*count)(int *count);
    *(void **)&init = dlsym(driver, "cuInit");
    *(void **)&count = dlsym(driver, "cuDeviceGetCount");
    if (init == NULL || count == NULL) {
        printf("none it lacks cuInit or cuDeviceGetCount\n");
        return 0;
    }
    int number = 0, answer = init(0);
    if (answer != 0) {
        printf("refuses %d\n", answer);
        return 0;
    }
    if (count(&number) == 0)
        printf("devices %d\n", number);
    return 0;
}

/* ---- what is made of it ---- */

struct gpus {
    int count;
    int prohibited, exclusive, divided; /* how many of them */
    char *described;                    /* "0 NVIDIA H200 (139.8 GiB, 0000:3b:00.0), ..." */
};

static void
add_gpu(struct gpus *gpus, const char *line)
{
    int mode, divided, name = 0;
    uint64_t bytes;
    char bus[NVML_TEXT_BYTES];
    if (sscanf(line, "%d %d %" SCNu64 " %95s %n", &mode, &divided, &bytes, bus, &name) < 4 || name == 0)
        return;
    gpus->prohibited += mode == NVML_MODE_PROHIBITED;
    gpus->exclusive += mode == NVML_MODE_EXCLUSIVE_PROCESS || mode == NVML_MODE_EXCLUSIVE_THREAD;
    gpus->divided += divided;
    OWNED char *before = gpus->described;
    gpus->described =
        xasprintf("%s%s%d %.*s (%.1f GiB, %s)", before != NULL ? before : "", before != NULL ? ", " : "", gpus->count++,
                  (int)strcspn(line + name, "\n"), line + name, (double)bytes / (1 << 30), bus);
}

/* The line that begins with `word`, after it; NULL: no such line. `from` and the text end in a NUL. */
static const char *
line_of(const char *text, const char *word)
{
    size_t length = strlen(word);
    while (text != NULL && *text != '\0') {
        if (strncmp(text, word, length) == 0 && text[length] == ' ')
            return text + length + 1;
        text = strchr(text, '\n');
        text = text != NULL ? text + 1 : NULL;
    }
    return NULL;
}

static int
number_of(const char *text, const char *word)
{
    const char *line = line_of(text, word);
    return line != NULL ? (int)strtol(line, NULL, 10) : -1;
}

/* A job on the stand-in does without GPUs, whatever is wrong with them. */
static enum finding_state
unless_softgpu(const struct examination *examination, enum finding_state state)
{
    return examination->softgpu ? FINDING_NOTE : state;
}

static void
judge_version(struct examination *examination, const char *release, int cuda)
{
    static const char update[] = "update NVIDIA's driver to release 580 or newer";
    struct findings *findings = examination->findings;
    int length = (int)strcspn(release, "\n");
    if (cuda <= 0)
        findings_say(findings, unless_softgpu(examination, FINDING_WARNING), "driver", update,
                     "release %.*s does not report its CUDA version", length, release);
    else if (cuda < LEAST_CUDA)
        findings_say(findings, unless_softgpu(examination, FINDING_PROBLEM), "driver", update,
                     "release %.*s serves CUDA %d.%d only; ddprun reads kernels' arguments by a call of CUDA 12.4",
                     length, release, cuda / 1000, cuda % 1000 / 10);
    else if (cuda < WANTED_CUDA)
        findings_say(findings, unless_softgpu(examination, FINDING_WARNING), "driver",
                     "update it to release 580 or newer, or use programs built with that CUDA version",
                     "release %.*s serves CUDA %d.%d; programs built with CUDA 13 do not run on it", length, release,
                     cuda / 1000, cuda % 1000 / 10);
    else
        findings_ok(findings, "driver", "release %.*s, serves CUDA %d.%d", length, release, cuda / 1000,
                    cuda % 1000 / 10);
}

static void
judge_gpus(struct examination *examination, const struct gpus *gpus)
{
    struct findings *findings = examination->findings;
    findings_ok(findings, "GPUs", "%d: %s", gpus->count, gpus->described);
    if (gpus->prohibited > 0)
        findings_say(findings, unless_softgpu(examination, FINDING_PROBLEM), "compute mode",
                     "nvidia-smi -c DEFAULT, as root", "%d of the GPUs do not allow compute programs (mode PROHIBITED)",
                     gpus->prohibited);
    if (gpus->exclusive > 0)
        findings_say(findings, FINDING_NOTE, "compute mode", "nvidia-smi -c DEFAULT, as root, if --share-gpu is wanted",
                     "%d of the GPUs serve one process at a time (mode EXCLUSIVE)", gpus->exclusive);
    if (gpus->divided > 0)
        findings_say(findings, FINDING_NOTE, "MIG",
                     "name the instances, one for each rank: --gpus MIG-...,MIG-... (nvidia-smi -L lists them); NCCL "
                     "may refuse several instances of one GPU",
                     "%d of the GPUs are divided into MIG instances", gpus->divided);
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

enum { NO_DEVICE = 100 }; /* of cuInit: a driver, and no GPU */

/* Asks the driver for what a program gets. False: there is none, or it has no GPU. `known`: GPUs that NVML knows, -1:
 * there is no NVML. */
static bool
examine_driver(struct examination *examination, int known)
{
    OWNED struct child_result *result = xcalloc(1, sizeof(*result));
    struct findings *findings = examination->findings;
    enum finding_state state = unless_softgpu(examination, FINDING_PROBLEM);
    char text[64];
    child_call(ask_driver, NULL, LIMIT_S, result);
    const char *none = line_of(result->text, "none");
    int devices = number_of(result->text, "devices"), refused = number_of(result->text, "refuses");
    const struct refusal *refusal = refusals;
    while (refusal->error != refused && refusal->error != 0)
        ++refusal;
    bool is_whole = result->end == CHILD_EXITED && result->code == 0;
    if (is_whole && known < 0 && (none != NULL || refused == NO_DEVICE || (refused < 0 && devices <= 0)))
        return false;
    if (!is_whole)
        findings_say(findings, state, "libcuda.so.1", restart, "opening the driver failed: %s",
                     child_end_text(result, text));
    else if (none != NULL)
        findings_say(findings, state, "libcuda.so.1", refusals[0].advice, "%.*s", (int)strcspn(none, "\n"), none);
    else if (refused >= 0)
        findings_say(findings, state, "libcuda.so.1", refusal->advice, "cuInit failed with error %d: %s", refused,
                     refusal->means);
    else if (known >= 0 && devices != known && getenv("CUDA_VISIBLE_DEVICES") == NULL)
        findings_say(findings, FINDING_WARNING, "libcuda.so.1", "name the GPUs to use by --gpus",
                     "CUDA finds %d GPUs, NVML finds %d", devices, known);
    else
        findings_ok(findings, "libcuda.so.1", "opens, and finds %d GPU%s", devices, devices == 1 ? "" : "s");
    if (known < 0 && devices > 0)
        examination->gpu_count = devices;
    return true;
}

/* What shows nothing of CUDA may start a program of softgpu-cc's, and a job has to be told. */
static bool
may_be_wrapper(const struct examination *examination)
{
    return examination->options->device == DEVICE_AUTO && examination->program != NULL &&
           !trainer_shows_cuda(examination);
}

static void
say_no_gpu(struct examination *examination, const char *why)
{
    struct findings *findings = examination->findings;
    if (examination->needs_gpu && may_be_wrapper(examination))
        findings_say(findings, FINDING_PROBLEM, "GPUs",
                     "add --device softgpu if it starts a program that softgpu-cc has built; otherwise install "
                     "NVIDIA's driver",
                     "none: %s; without --device softgpu ranks need one", why);
    else if (examination->needs_gpu)
        findings_say(findings, FINDING_PROBLEM, "GPUs", install_driver, "none: %s; the program needs one", why);
    else if (examination->softgpu)
        findings_ok(findings, "GPUs", "no GPU; the stand-in does not need one (%s)", why);
    else
        findings_say(findings, FINDING_NOTE, "GPUs",
                     "ignore this for programs built by softgpu-cc; for others install NVIDIA's driver", "none: %s",
                     why);
}

void
examine_gpus(struct examination *examination)
{
    OWNED struct child_result *result = xcalloc(1, sizeof(*result));
    char text[64];
    child_call(ask_nvml, NULL, LIMIT_S, result);
    const char *none = line_of(result->text, "none"), *release = line_of(result->text, "release");
    struct gpus gpus = {0};
    for (const char *line = result->text; (line = line_of(line, "gpu")) != NULL;)
        add_gpu(&gpus, line);

    if (result->end != CHILD_EXITED || result->code != 0 || (none == NULL && release == NULL)) {
        findings_say(examination->findings, unless_softgpu(examination, FINDING_PROBLEM), "driver", restart,
                     "the query by NVML failed: %s", child_end_text(result, text));
    } else if (none != NULL) {
        OWNED char *why = xasprintf("%.*s", (int)strcspn(none, "\n"), none);
        if (!examine_driver(examination, -1))
            say_no_gpu(examination, why);
    } else {
        examination->gpu_count = gpus.count;
        judge_version(examination, release, number_of(result->text, "cuda"));
        if (gpus.count == 0)
            say_no_gpu(examination, "the driver works, but finds no GPU");
        else
            judge_gpus(examination, &gpus);
        if (gpus.count > 0)
            (void)examine_driver(examination, gpus.count);
    }
    free(gpus.described);
}
