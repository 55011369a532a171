/*
 * installed.c - the doctor's look at ddprun itself: its parts, and the libraries that they need.
 */
#include "base/protocol.h"
#include "launcher/cluster/pmix/library.h"
#include "launcher/start/elf_file.h"
#include "launcher/start/loader.h"
#include "tools/common/owned.h"
#include "tools/doctor/examine.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <link.h>

extern char **environ;

static void
say_missing(struct findings *findings, const struct loader_list *loaded)
{
    OWNED char *missing = NULL;
    FOR_EACH(library, loaded->libraries, loaded->count) {
        if (library->path != NULL)
            continue;
        OWNED char *before = missing;
        missing = xasprintf("%s%s%s", before != NULL ? before : "", before != NULL ? ", " : "", library->name);
    }
    if (missing != NULL)
        findings_say(findings, FINDING_PROBLEM, "engine", "install the packages that hold them",
                     "the loader does not find %s, which the engine needs in every rank", missing);
    else if (loaded->complaint != NULL)
        findings_say(findings, FINDING_PROBLEM, "engine", "build ddprun on this system, or install its packages for it",
                     "the loader cannot load the engine: %s", loaded->complaint);
    else
        findings_ok(findings, "engine", "the loader finds all %zu libraries that it needs", loaded->count);
}

/* The engine is opened when a rank begins; what it lacks would be found out only then. */
static void
examine_engine(struct examination *examination)
{
    struct findings *findings = examination->findings;
    struct elf_facts own;
    struct loader_list loaded;
    char why[96];
    OWNED_FD int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    bool known = fd >= 0 && elf_file_inspect(fd, &own) == 0 && own.kind == ELF_KIND_DYNAMIC;
    if (!known) {
        findings_say(findings, FINDING_WARNING, "engine", "mount /proc", "its libraries are not known: %s",
                     strerror(errno));
    } else if (!loader_ask(own.interpreter, examination->found.engine, environ, &loaded, why)) {
        findings_say(findings, FINDING_WARNING, "engine", "install ddprun again",
                     "the loader does not list its libraries: %s", why);
    } else {
        say_missing(findings, &loaded);
        loader_list_free(&loaded);
    }
}

static void
examine_kernels(struct examination *examination)
{
    const char *kernels = examination->found.kernels;
    if (kernels != NULL)
        findings_ok(examination->findings, "kernels", "%s", kernels);
    else
        findings_say(examination->findings,
                     examination->options->job.compression != DDPRUN_COMPRESS_NONE ? FINDING_PROBLEM : FINDING_NOTE,
                     "kernels", "build ddprun where nvcc of CUDA 13 is, if --compress is wanted",
                     "ddprun's own kernels are not installed for %s: buckets are packed by copies, memory is "
                     "hashed on the host, and --compress does not work",
                     examination->softgpu ? "the stand-in" : "GPUs");
}

/* Where no cluster's launcher is, none is needed. Of "OpenPMIx 4.2.2rc2 (PMIx Standard: ...) ..." the first two words
 * are enough. */
static void
examine_pmix(struct examination *examination)
{
    struct error error;
    const struct pmix_library *library = pmix_library_open(&error);
    if (library == NULL) {
        findings_say_error(examination->findings, getenv("PMIX_NAMESPACE") != NULL ? FINDING_PROBLEM : FINDING_NOTE,
                           "PMIx", error.text);
        return;
    }
    const char *version = library->version();
    const char *blank = strchr(version, ' ');
    size_t length = blank != NULL ? (size_t)(blank - version) + 1 + strcspn(blank + 1, " ,(") : strlen(version);
    findings_ok(examination->findings, "PMIx", "%.*s, for jobs of srun, mpirun and prterun; other jobs do not use it",
                (int)length, version);
}

void
examine_installation(struct examination *examination)
{
    struct error error;
    examination->is_installed = installation_find(examination->softgpu, &examination->found, &error);
    if (!examination->is_installed) {
        findings_say_error(examination->findings, FINDING_PROBLEM, "ddprun", error.text);
        return;
    }
    findings_ok(examination->findings, "ddprun", "%s, with %s, glibc %s", DDPRUN_VERSION, examination->found.shim,
                gnu_get_libc_version());
    examine_engine(examination);
    examine_kernels(examination);
    examine_pmix(examination);
}
