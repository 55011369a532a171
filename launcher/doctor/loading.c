/*
 * loading.c - what the dynamic loader says of the program with the shim preloaded, as a rank would be started.
 */
#include "launcher/doctor/examine_program.h"
#include "launcher/doctor/trial.h"
#include "launcher/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* CUDA's libraries, of which the stand-in has some and NVIDIA's toolkit all. */
static const char *const cuda_families[] = {"libcuda.so",     "libcudart.so",   "libcublas.so", "libcublasLt.so",
                                            "libcurand.so",   "libcudnn",       "libnccl.so",   "libcufft.so",
                                            "libcusparse.so", "libcusolver.so", "libnvrtc",     "libnvJitLink.so"};

static const char *
base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static bool
is_of_cuda(const char *name)
{
    for (size_t i = 0; i < sizeof(cuda_families) / sizeof(cuda_families[0]); ++i) {
        if (strncmp(base_of(name), cuda_families[i], strlen(cuda_families[i])) == 0)
            return true;
    }
    return false;
}

static bool
is_same_file(const char *a, const char *b)
{
    struct stat one, other;
    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_ino == other.st_ino && one.st_dev == other.st_dev;
}

static bool
lies_in(const char *path, const char *folder)
{
    char *whole = realpath(path, NULL), *place = realpath(folder, NULL);
    size_t length = place != NULL ? strlen(place) : 0;
    bool inside = whole != NULL && length > 0 && strncmp(whole, place, length) == 0 && whole[length] == '/';
    free(whole);
    free(place);
    return inside;
}

/* ---- CUDA's libraries ---- */

/* Versions stand in the names of the files: libcublas.so.13 -> libcublas.so.13.1.0.3. */
static void
judge_cuda_library(struct examination *examination, const struct trial_library *library)
{
    struct findings *findings = examination->findings;
    char *real = realpath(library->path, NULL);
    bool is_stand_in = lies_in(library->path, examination->found.softgpu_lib);
    if (strstr(library->path, "/stubs/") != NULL)
        findings_say(findings, FINDING_PROBLEM, "CUDA library",
                     "take the stubs folder out of LD_LIBRARY_PATH and of the program's RPATH",
                     "%s is found at %s, a stub for linking that cannot run", library->name, library->path);
    else if (examination->softgpu && !is_stand_in)
        findings_say(
            findings, FINDING_PROBLEM, "CUDA library",
            "link with softgpu-cc and without an RPATH to CUDA's libraries; what the stand-in lacks it cannot run",
            "%s is found at %s, not in the stand-in", library->name, library->path);
    else if (!examination->softgpu && is_stand_in)
        findings_say(findings, FINDING_PROBLEM, "CUDA library", "take the stand-in's folder out of LD_LIBRARY_PATH",
                     "%s is found in the stand-in (%s), but the program was built for GPUs", library->name,
                     library->path);
    else
        findings_ok(findings, "CUDA library", "%s is %s", library->name, real != NULL ? real : library->path);
    free(real);
}

static void
judge_libraries(struct examination *examination, const struct trial *trial)
{
    for (size_t i = 0; i < trial->count; ++i) {
        const struct trial_library *library = &trial->libraries[i];
        if (library->path == NULL)
            findings_say(examination->findings, FINDING_PROBLEM, is_of_cuda(library->name) ? "CUDA library" : "library",
                         "install it, or name its folder in LD_LIBRARY_PATH", "%s is not found", library->name);
        else if (is_of_cuda(library->name))
            judge_cuda_library(examination, library);
    }
}

/* ---- the shim ---- */

static bool
is_shown(const char *name)
{
    return strncmp(name, "linux-vdso", 10) != 0 && strncmp(name, "linux-gate", 10) != 0;
}

static void
judge_preload(struct examination *examination, const struct trial *trial)
{
    struct findings *findings = examination->findings;
    int place = trial_place_of(trial, examination->found.shim);
    const char *before = NULL;
    for (int i = 0; i < place && before == NULL; ++i) {
        if (is_shown(trial->libraries[i].name))
            before = trial->libraries[i].name;
    }
    if (place < 0)
        findings_say(
            findings, FINDING_PROBLEM, "shim",
            "see that the program is no wrapper with its own loader, and that ddprun is installed for this system",
            "the loader does not put it in front of the program%s%s", trial->complaint != NULL ? ": " : "",
            trial->complaint != NULL ? trial->complaint : "");
    else if (before != NULL)
        findings_say(findings, FINDING_NOTE, "shim",
                     "nothing, if that is a sanitizer's or a profiler's; otherwise unset LD_PRELOAD",
                     "is put in front of the program, behind %s", before);
    else
        findings_ok(findings, "shim", "is put in front of the program, before %zu other libraries", trial->count - 1);
    if (place >= 0 && trial->complaint != NULL)
        findings_say(findings, FINDING_PROBLEM, "loader", "install what it lacks, or build the program on this system",
                     "the loader says: %s", trial->complaint);
}

/* ---- annotations ---- */

static bool
is_annotated_library(const char *path)
{
    struct elf_source source;
    struct elf_needs needs;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool is_annotated = false;
    if (fd >= 0 && elf_source_open(fd, &source) == 0 && elf_needs_read(&source, &needs) == 0) {
        is_annotated = needs.is_annotated;
        elf_needs_free(&needs);
    }
    if (fd >= 0)
        close(fd);
    return is_annotated;
}

static bool
may_be_annotated(const struct examination *examination, const struct trial_library *library)
{
    const char *path = library->path;
    return path != NULL && !is_of_cuda(library->name) && strncmp(path, "/lib", 4) != 0 &&
           strncmp(path, "/usr/lib", 8) != 0 && !is_same_file(path, examination->found.shim);
}

static void
examine_annotations(struct examination *examination, const struct trial *trial)
{
    const char *where = examination->needs->is_annotated ? "the program" : NULL;
    for (size_t i = 0; where == NULL && i < trial->count; ++i) {
        if (may_be_annotated(examination, &trial->libraries[i]) && is_annotated_library(trial->libraries[i].path))
            where = trial->libraries[i].path;
    }
    if (where != NULL)
        findings_ok(examination->findings, "annotations", "%s uses ddprun.h", where);
    else
        findings_say(examination->findings, FINDING_WARNING, "annotations",
                     "annotate it (docs/annotations.md), or examine the program that it starts",
                     "none found%s: nothing says which memory holds gradients",
                     examination->needs->searched_all ? "" : " in what was looked through of so large a file");
}

/* ---- all ---- */

/* As the rank's will be, but for the places of the job. */
static char **
environment_of_rank(const struct examination *examination)
{
    char *visible[] = {NULL};
    struct device_plan devices = {.softgpu = examination->softgpu, .rank_count = 1, .visible = visible};
    struct rank_settings settings = {.options = examination->options,
                                     .devices = &devices,
                                     .installation = &examination->found,
                                     .job_dir = "/nonexistent"};
    return environment_for_rank(environ, &settings, 0);
}

/* A loader of another name could be any program: only the one that runs ddprun is asked. */
static bool
is_own_loader(const char *loader)
{
    struct elf_facts own;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    bool same = fd >= 0 && elf_file_inspect(fd, &own) == 0 && own.kind == ELF_KIND_DYNAMIC &&
                is_same_file(own.interpreter, loader);
    if (fd >= 0)
        close(fd);
    return same;
}

void
examine_loading(struct examination *examination)
{
    struct findings *findings = examination->findings;
    struct trial trial;
    char why[96];
    if (!examination->is_installed)
        return; /* said already */
    if (!is_own_loader(examination->facts->interpreter)) {
        findings_say(findings, FINDING_WARNING, "shim", "try it: ddprun -n 1 PROGRAM",
                     "the program has a loader of its own, %s, which was not asked", examination->facts->interpreter);
        return;
    }
    char **environment = environment_of_rank(examination);
    bool ok = trial_run(examination->facts->interpreter, examination->program->path, environment, &trial, why);
    environment_free(environment);
    if (!ok) {
        findings_say(findings, FINDING_WARNING, "shim", "try it: ddprun -n 1 PROGRAM", "the loader gave no list: %s",
                     why);
        return;
    }
    judge_preload(examination, &trial);
    judge_libraries(examination, &trial);
    examine_annotations(examination, &trial);
    trial_free(&trial);
}
