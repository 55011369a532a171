/*
 * installed.c - the doctor's look at ddprun itself: its parts, and the libraries that they need, of which NCCL is found
 * by ranks.
 */
#include "base/protocol.h"
#include "launcher/cluster/pmix/library.h"
#include "launcher/start/child.h"
#include "launcher/start/elf_file.h"
#include "launcher/start/loader.h"
#include "launcher/start/nccl.h"
#include "tools/common/owned.h"
#include "tools/doctor/examine.h"

#include <fcntl.h>
#include <gnu/libc-version.h>

extern char **environ;

static void
say_missing(struct examination *it, const struct loader_list *loaded)
{
    OWNED char *missing = NULL;
    FOR_EACH(library, loaded->libraries, loaded->count) {
        if (library->path != NULL)
            continue;
        OWNED char *before = missing;
        missing = xasprintf("%s%s%s", before != NULL ? before : "", before != NULL ? ", " : "", library->name);
    }
    if (missing != NULL)
        findings_say(it, FINDING_PROBLEM, "engine", "install the packages that hold them",
                     "the loader does not find %s, which the engine needs in every rank", missing);
    else if (loaded->complaint != NULL)
        findings_say(it, FINDING_PROBLEM, "engine", "build ddprun on this system, or install its packages for it",
                     "the loader cannot load the engine: %s", loaded->complaint);
    else
        findings_ok(it, "engine", "the loader finds all %zu libraries that it needs", loaded->count);
}

/* The engine is opened when a rank begins; what it lacks would be found out only then. */
static void
examine_engine(struct examination *it)
{
    struct elf_facts own;
    struct loader_list loaded;
    char why[96];
    OWNED_FD int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    bool known = fd >= 0 && elf_file_inspect(fd, &own) == 0 && own.kind == ELF_KIND_DYNAMIC;
    if (!known) {
        findings_say(it, FINDING_WARNING, "engine", "mount /proc", "its libraries are not known: %s", strerror(errno));
    } else if (!loader_ask(own.interpreter, it->found.engine, environ, &loaded, why)) {
        findings_say(it, FINDING_WARNING, "engine", "install ddprun again",
                     "the loader does not list its libraries: %s", why);
    } else {
        say_missing(it, &loaded);
        loader_list_free(&loaded);
    }
}

static void
examine_kernels(struct examination *it)
{
    const char *kernels = it->found.kernels;
    if (kernels != NULL)
        findings_ok(it, "kernels", "%s", kernels);
    else
        findings_say(it, it->options->job.compression != DDPRUN_COMPRESS_NONE ? FINDING_PROBLEM : FINDING_NOTE,
                     "kernels",
                     "if --compress is wanted, install a package of ddprun, or build it where nvcc of CUDA 13 is",
                     "ddprun's own kernels are not installed for %s: buckets are packed by copies, memory is "
                     "hashed on the host, and --compress does not work",
                     it->softgpu ? "the stand-in" : "GPUs");
}

/* Where no cluster's launcher is, none is needed. Of "OpenPMIx 4.2.2rc2 (PMIx Standard: ...) ..." the first two words
 * are enough. */
static void
examine_pmix(struct examination *it)
{
    struct error error;
    const struct pmix_library *library = pmix_library_open(&error);
    if (library == NULL) {
        findings_say_error(it, getenv("PMIX_NAMESPACE") != NULL ? FINDING_PROBLEM : FINDING_NOTE, "PMIx", error.text);
        return;
    }
    const char *version = library->version();
    const char *blank = strchr(version, ' ');
    size_t length = blank != NULL ? (size_t)(blank - version) + 1 + strcspn(blank + 1, " ,(") : strlen(version);
    findings_ok(it, "PMIx", "%.*s, for jobs of srun, mpirun and prterun; other jobs do not use it", (int)length,
                version);
}

void
examine_installation(struct examination *it)
{
    struct error error;
    it->is_installed = installation_find(it->softgpu, &it->found, &error);
    if (!it->is_installed) {
        findings_say_error(it, FINDING_PROBLEM, "ddprun", error.text);
        return;
    }
    findings_ok(it, "ddprun", "%s, with %s, glibc %s", DDPRUN_VERSION, it->found.shim, gnu_get_libc_version());
    examine_engine(it);
    examine_kernels(it);
    examine_pmix(it);
}

/* ---- NCCL ---- */

/* As comm/nccl_versions.h wants it: 2.18. */
enum { LEAST_NCCL = 21800 };

static void
say_no_nccl(struct examination *it, const char *why)
{
    bool matters = it->softgpu || it->needs_gpu || it->gpu_count > 0 || it->options->nccl != NULL;
    findings_say(it, matters ? FINDING_PROBLEM : FINDING_NOTE, "NCCL",
                 it->softgpu ? "install the stand-in again (ddprun-softgpu)"
                 : matters   ? "install NCCL 2 (libnccl2), or name its library by --nccl"
                             : "install NCCL 2 (libnccl2) before programs run on GPUs, or name it by --nccl",
                 "not found: %s", why);
}

/* NCCL_VERSION(X, Y, Z) of nccl.h: 22809 for 2.28.9, and 2708 for 2.7.8. */
static void
judge_nccl(struct examination *it, int number, const char *path)
{
    int major = number >= 10000 ? number / 10000 : number / 1000;
    int minor = number >= 10000 ? number / 100 % 100 : number / 100 % 10;
    if (number < LEAST_NCCL)
        findings_say(it, FINDING_PROBLEM, "NCCL", "install a newer one, or name another by --nccl",
                     "%s is %d.%d.%d; 2.18 or newer is needed", path, major, minor, number % 100);
    else
        findings_ok(it, "NCCL", "%d.%d.%d, %s", major, minor, number % 100, path);
}

void
examine_nccl(struct examination *it)
{
    OWNED struct child_result *result = xcalloc(1, sizeof(*result));
    OWNED char *name = it->options->nccl != NULL         ? xstrdup(it->options->nccl)
                       : it->softgpu && it->is_installed ? xasprintf("%s/libnccl.so.2", it->found.softgpu_lib)
                                                         : xstrdup("libnccl.so.2");
    int number, path = 0;
    char end[64];
    nccl_ask(name, result);
    result->text[strcspn(result->text, "\n")] = '\0';
    if (result->end != CHILD_EXITED || result->code != 0)
        say_no_nccl(it, child_end_text(result, end));
    else if (sscanf(result->text, "nccl %d %n", &number, &path) < 1 || path == 0)
        say_no_nccl(it, strncmp(result->text, "none ", 5) == 0 ? result->text + 5 : "no reason was reported");
    else
        judge_nccl(it, number, result->text + path);
}
