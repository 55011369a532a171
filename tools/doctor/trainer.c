/*
 * trainer.c - the doctor's look at the program: what it was built with, from its file, and what the dynamic loader
 * would make of it with the shim in front. None of the program's own code runs.
 */
#include "tools/common/owned.h"
#include "tools/doctor/examine.h"

bool
trainer_shows_cuda(const struct examination *it)
{
    return it->has_kernels || ANY(library, it->loaded.libraries, it->loaded.count, is_library_of_cuda(library->name));
}

static void
examine_device(struct examination *it)
{
    struct error error;
    if (!devices_check_program(it->options, &it->program, &error))
        findings_say_error(it, FINDING_PROBLEM, "device", error.text);
    else if (it->facts.built_for_softgpu)
        findings_ok(it, "device", "built by softgpu-cc, for the stand-in");
    else if (it->softgpu && it->has_kernels)
        findings_say(it, FINDING_PROBLEM, "device", "build it with softgpu-cc, or leave --device softgpu out",
                     "built for GPUs, with kernels of its own, which the stand-in cannot run");
    else if (trainer_shows_cuda(it))
        findings_ok(it, "device", "built for GPUs%s", it->has_kernels ? ", with kernels of its own" : "");
    else
        findings_say(it, FINDING_NOTE, "device",
                     "if it starts the trainer, examine the trainer: ddprun doctor PROGRAM; if it loads CUDA as a "
                     "plugin, ignore this",
                     "no sign of CUDA in its file");
}

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
judge_cuda_library(struct examination *it, const struct loader_library *library)
{
    OWNED char *real = realpath(library->path, NULL);
    bool is_stand_in = lies_in(library->path, it->found.softgpu_lib);
    if (strstr(library->path, "/stubs/") != NULL)
        findings_say(it, FINDING_PROBLEM, "CUDA library",
                     "take the stubs folder out of LD_LIBRARY_PATH and of the program's RPATH",
                     "%s is found at %s, a stub for linking that cannot run", library->name, library->path);
    else if (it->softgpu && !is_stand_in)
        findings_say(it, FINDING_PROBLEM, "CUDA library",
                     "link with softgpu-cc and without an RPATH to CUDA's libraries; the stand-in cannot run the "
                     "features that it lacks",
                     "%s is found at %s, not in the stand-in", library->name, library->path);
    else if (!it->softgpu && is_stand_in)
        findings_say(it, FINDING_PROBLEM, "CUDA library", "take the stand-in's folder out of LD_LIBRARY_PATH",
                     "%s is found in the stand-in (%s), but the program was built for GPUs", library->name,
                     library->path);
    else
        findings_ok(it, "CUDA library", "%s is %s", library->name, real != NULL ? real : library->path);
}

static void
judge_libraries(struct examination *it, const struct loader_list *loaded)
{
    FOR_EACH(library, loaded->libraries, loaded->count) {
        if (library->path == NULL)
            findings_say(it, FINDING_PROBLEM, is_library_of_cuda(library->name) ? "CUDA library" : "library",
                         "install it, or name its folder in LD_LIBRARY_PATH", "%s is not found", library->name);
        else if (is_library_of_cuda(library->name))
            judge_cuda_library(it, library);
    }
}

/* ---- the shim ---- */

static void
judge_preload(struct examination *it, const struct loader_list *loaded)
{
    int place = loader_place_of(loaded, it->found.shim);
    const char *before = NULL;
    for (int i = 0; i < place && before == NULL; ++i) {
        const char *name = loaded->libraries[i].name;
        before = strncmp(name, "linux-vdso", 10) != 0 && strncmp(name, "linux-gate", 10) != 0 ? name : NULL;
    }
    if (place < 0)
        findings_say(
            it, FINDING_PROBLEM, "preloading",
            "check that the program is not a wrapper with its own loader, and that ddprun is installed for this system",
            "the loader does not preload libddprun.so into the program%s%s", loaded->complaint != NULL ? ": " : "",
            loaded->complaint != NULL ? loaded->complaint : "");
    else if (before != NULL && strcmp(before, it->program.sanitizer) == 0)
        findings_ok(it, "preloading", "libddprun.so comes after the sanitizer's %s, which must be the first library",
                    before);
    else if (before != NULL)
        findings_say(it, FINDING_NOTE, "preloading",
                     "ignore this if that library belongs to a sanitizer or a profiler; otherwise unset LD_PRELOAD",
                     "libddprun.so is preloaded after %s", before);
    else
        findings_ok(it, "preloading", "libddprun.so comes before %zu other libraries", loaded->count - 1);
    if (place >= 0 && loaded->complaint != NULL)
        findings_say(it, FINDING_PROBLEM, "loader", "install what it lacks, or build the program on this system",
                     "the loader reports: %s", loaded->complaint);
}

/* ---- annotations ---- */

static void
examine_annotations(struct examination *it)
{
    const char *where;
    switch (annotated_judge(it->program.path, &it->loaded, it->found.shim, &where)) {
    case ANNOTATED_YES:
        findings_ok(it, "annotations", "%s uses ddprun.h", where == it->program.path ? "the program" : where);
        break;
    case ANNOTATED_NO:
        findings_say(
            it, FINDING_PROBLEM, "annotations",
            "annotate it (man ddprun.h; `ddprun scout --patch FILE` writes the lines), train it unchanged (--plan "
            "auto), or start separate copies (--unannotated)",
            "no annotation in the program and its libraries, although they contain kernels: ddprun -n 2 "
            "refuses the program");
        break;
    default:
        findings_say(it, FINDING_WARNING, "annotations",
                     "annotate it (man ddprun.h), or examine the program that it starts",
                     "no annotation found, so ddprun does not know the gradients");
        break;
    }
}

/* ---- what the loader says of the program with the shim preloaded, as a rank would be started ---- */

/* As the rank's will be, but for the places of the job. */
static char **
environment_of_rank(const struct examination *it)
{
    char *visible[] = {NULL};
    struct device_plan devices = {.softgpu = it->softgpu, .rank_count = 1, .visible = visible};
    struct rank_settings settings = {.options = it->options,
                                     .devices = &devices,
                                     .installation = &it->found,
                                     .program = &it->program,
                                     .job_dir = "/nonexistent"};
    return environment_for_rank(environ, &settings, 0);
}

void
examine_list(struct examination *it)
{
    if (!it->is_installed || !it->is_whole || !loader_is_own(it->facts.interpreter))
        return;
    char **environment = environment_of_rank(it);
    it->has_list = loader_ask(it->facts.interpreter, it->program.path, environment, &it->loaded, it->why);
    words_free(environment);
}

/* Which libraries the loader finds, which of CUDA, and where ddprun's own comes; which file is annotated. */
static void
examine_loading(struct examination *it)
{
    if (!it->is_installed)
        return; /* said already */
    if (!loader_is_own(it->facts.interpreter)) {
        findings_say(it, FINDING_WARNING, "preloading", "try it: ddprun -n 1 PROGRAM",
                     "the program has a loader of its own, %s, which doctor does not run", it->facts.interpreter);
    } else if (!it->has_list) {
        findings_say(it, FINDING_WARNING, "preloading", "try it: ddprun -n 1 PROGRAM",
                     "the loader does not list the libraries: %s", it->why);
    } else {
        judge_preload(it, &it->loaded);
        judge_libraries(it, &it->loaded);
        examine_annotations(it);
    }
}

void
examine_program(struct examination *it)
{
    if (it->program.is_script) {
        findings_say(it, FINDING_NOTE, "file",
                     "examine the program that it starts, too: ddprun doctor PROGRAM, with --device softgpu if "
                     "softgpu-cc built that program",
                     "a script for %s; the shim has no effect in the interpreter", it->program.interpreter);
        return;
    }
    if (!it->is_whole) {
        findings_say(it, FINDING_PROBLEM, "file", "build it again", "its headers for the dynamic loader are invalid");
        return;
    }
    findings_ok(it, "file", "dynamically linked ELF, by %s", it->facts.interpreter);
    examine_device(it);
    examine_loading(it);
}
