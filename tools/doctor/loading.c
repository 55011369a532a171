/*
 * loading.c - what the dynamic loader says of the program with the shim preloaded, as a rank would be started.
 */
#include "tools/common/owned.h"
#include "tools/doctor/examine.h"

static bool
lies_in(const char *path, const char *folder)
{
    OWNED char *whole = realpath(path, NULL), *place = realpath(folder, NULL);
    size_t length = place != NULL ? strlen(place) : 0;
    return whole != NULL && length > 0 && strncmp(whole, place, length) == 0 && whole[length] == '/';
}

/* ---- CUDA's libraries ---- */

/* Versions stand in the names of the files: libcublas.so.13 -> libcublas.so.13.1.0.3. */
static void
judge_cuda_library(struct examination *examination, const struct loader_library *library)
{
    struct findings *findings = examination->findings;
    OWNED char *real = realpath(library->path, NULL);
    bool is_stand_in = lies_in(library->path, examination->found.softgpu_lib);
    if (strstr(library->path, "/stubs/") != NULL)
        findings_say(findings, FINDING_PROBLEM, "CUDA library",
                     "take the stubs folder out of LD_LIBRARY_PATH and of the program's RPATH",
                     "%s is found at %s, a stub for linking that cannot run", library->name, library->path);
    else if (examination->softgpu && !is_stand_in)
        findings_say(findings, FINDING_PROBLEM, "CUDA library",
                     "link with softgpu-cc and without an RPATH to CUDA's libraries; the stand-in cannot run the "
                     "features that it lacks",
                     "%s is found at %s, not in the stand-in", library->name, library->path);
    else if (!examination->softgpu && is_stand_in)
        findings_say(findings, FINDING_PROBLEM, "CUDA library", "take the stand-in's folder out of LD_LIBRARY_PATH",
                     "%s is found in the stand-in (%s), but the program was built for GPUs", library->name,
                     library->path);
    else
        findings_ok(findings, "CUDA library", "%s is %s", library->name, real != NULL ? real : library->path);
}

static void
judge_libraries(struct examination *examination, const struct loader_list *loaded)
{
    FOR_EACH(library, loaded->libraries, loaded->count) {
        if (library->path == NULL)
            findings_say(examination->findings, FINDING_PROBLEM,
                         is_library_of_cuda(library->name) ? "CUDA library" : "library",
                         "install it, or name its folder in LD_LIBRARY_PATH", "%s is not found", library->name);
        else if (is_library_of_cuda(library->name))
            judge_cuda_library(examination, library);
    }
}

/* ---- the shim ---- */

static void
judge_preload(struct examination *examination, const struct loader_list *loaded)
{
    struct findings *findings = examination->findings;
    int place = loader_place_of(loaded, examination->found.shim);
    const char *before = NULL;
    for (int i = 0; i < place && before == NULL; ++i) {
        const char *name = loaded->libraries[i].name;
        before = strncmp(name, "linux-vdso", 10) != 0 && strncmp(name, "linux-gate", 10) != 0 ? name : NULL;
    }
    if (place < 0)
        findings_say(
            findings, FINDING_PROBLEM, "shim",
            "check that the program is not a wrapper with its own loader, and that ddprun is installed for this system",
            "the loader does not preload it into the program%s%s", loaded->complaint != NULL ? ": " : "",
            loaded->complaint != NULL ? loaded->complaint : "");
    else if (before != NULL)
        findings_say(findings, FINDING_NOTE, "shim",
                     "ignore this if that library belongs to a sanitizer or a profiler; otherwise unset LD_PRELOAD",
                     "is preloaded, but after %s", before);
    else
        findings_ok(findings, "shim", "is preloaded, before %zu other libraries", loaded->count - 1);
    if (place >= 0 && loaded->complaint != NULL)
        findings_say(findings, FINDING_PROBLEM, "loader", "install what it lacks, or build the program on this system",
                     "the loader reports: %s", loaded->complaint);
}

/* ---- annotations ---- */

static void
examine_annotations(struct examination *examination)
{
    struct findings *findings = examination->findings;
    const char *where;
    switch (annotated_judge(examination->program->path, &examination->loaded, examination->found.shim, &where)) {
    case ANNOTATED_YES:
        findings_ok(findings, "annotations", "%s uses ddprun.h",
                    where == examination->program->path ? "the program" : where);
        break;
    case ANNOTATED_NO:
        findings_say(findings, FINDING_PROBLEM, "annotations",
                     "annotate it (man ddprun.h), or run copies of it with --unannotated",
                     "no annotation in the program and its libraries, although they contain kernels: ddprun -n 2 "
                     "refuses the program");
        break;
    default:
        findings_say(findings, FINDING_WARNING, "annotations",
                     "annotate it (man ddprun.h), or examine the program that it starts",
                     "no annotation found, so ddprun does not know the gradients");
        break;
    }
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

void
examine_list(struct examination *examination)
{
    if (!examination->is_installed || !examination->is_whole || !loader_is_own(examination->facts->interpreter))
        return;
    char **environment = environment_of_rank(examination);
    examination->has_list = loader_ask(examination->facts->interpreter, examination->program->path, environment,
                                       &examination->loaded, examination->why);
    words_free(environment);
}

void
examine_loading(struct examination *examination)
{
    struct findings *findings = examination->findings;
    if (!examination->is_installed)
        return; /* said already */
    if (!loader_is_own(examination->facts->interpreter)) {
        findings_say(findings, FINDING_WARNING, "shim", "try it: ddprun -n 1 PROGRAM",
                     "the program has a loader of its own, %s, which doctor does not run",
                     examination->facts->interpreter);
    } else if (!examination->has_list) {
        findings_say(findings, FINDING_WARNING, "shim", "try it: ddprun -n 1 PROGRAM",
                     "the loader does not list the libraries: %s", examination->why);
    } else {
        judge_preload(examination, &examination->loaded);
        judge_libraries(examination, &examination->loaded);
        examine_annotations(examination);
    }
}
