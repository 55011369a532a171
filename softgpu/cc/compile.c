/*
 * compile.c - one input of the command line to an object file, or to preprocessed text. See steps.h.
 *
 *   .cu        g++ -E (our prelude first)  ->  rewrite()  ->  g++ -c on the preprocessed text
 *   .cpp, .c   the host compiler with CUDA's header folders
 */
#include "process.h"
#include "removed.h"
#include "rewrite.h"
#include "sides.h"
#include "steps.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- files ---- */

/* "dir/train.cu", ".o" -> "train.o" */
static char *
with_ending(const char *path, const char *ending)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    return text_format("%.*s%s", (int)(dot != NULL && dot != base ? dot - base : (long)strlen(base)), base, ending);
}

/* "dir/train.cu" -> "train.o", or what -o and -odir say. */
static char *
object_of(const struct options *options, const char *input)
{
    char *name = with_ending(input, ".o");
    char *object = step_output(options, name);
    free(name);
    return object;
}

/* Where an intermediate file goes: the private folder, or with --keep the folder that the user names. */
static char *
intermediate(const struct driver *driver, const char *input, size_t number, const char *ending)
{
    char *path;
    if (driver->options->keep) {
        char *name = with_ending(input, ending);
        path = driver->options->keep_dir != NULL ? text_format("%s/%s", driver->options->keep_dir, name)
                                                 : text_format("%s", name);
        free(name);
        return path;
    }
    /* Two inputs may have the same name. */
    char *middle = text_format(".%zu%s", number, ending);
    char *name = with_ending(input, middle);
    path = driver->options->dry_run ? text_format("/tmp/softgpu-cc/%s", name) : process_temporary(name);
    free(middle);
    free(name);
    return path;
}

static bool
read_file(const char *path, struct text *text)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        complain("cannot read %s: %s", path, strerror(errno));
        return false;
    }
    char *buffer = memory_grow(NULL, 1 << 16);
    size_t got = fread(buffer, 1, 1 << 16, file);
    for (; got > 0; got = fread(buffer, 1, 1 << 16, file))
        text_append(text, buffer, got);
    const bool ok = ferror(file) == 0;
    free(buffer);
    fclose(file);
    if (!ok)
        complain("cannot read %s", path);
    return ok;
}

static bool
write_file(const char *path, const struct text *text)
{
    FILE *file = fopen(path, "we");
    bool ok = file != NULL && fwrite(text->data, 1, text->length, file) == text->length;
    if (file != NULL && fclose(file) != 0)
        ok = false;
    if (!ok)
        complain("cannot write %s: %s", path, strerror(errno));
    return ok;
}

/* ---- parts of commands ---- */

/*
 * The level of optimisation, NULL for the compiler's own. nvcc's -O is about host code only and kernels are always
 * optimised; here both come from one compiler, whose -O1 and -O2 do not vectorise, so they mean -O3 in CUDA source.
 */
static const char *
optimisation_of(const struct options *options, enum language language)
{
    const char *level = options->optimisation;
    if (language != LANGUAGE_CUDA)
        return level;
    if (level == NULL)
        return options->device_debug ? "0" : "3";
    bool raised = !options->device_debug && (strcmp(level, "1") == 0 || strcmp(level, "2") == 0);
    return raised ? "3" : level;
}

/* What holds for preprocessing and for compiling. */
static void
add_common(const struct driver *driver, enum language language, struct list *command)
{
    const struct options *options = driver->options;
    list_add_all(command, &driver->toolchain->compiler);
    if (options->standard != NULL && language != LANGUAGE_C)
        list_add_format(command, "-std=%s", options->standard);
    const char *level = optimisation_of(options, language);
    if (level != NULL)
        list_add_format(command, "-O%s", level);
    if (options->debug || options->device_debug)
        list_add(command, "-g");
    if (options->profile)
        list_add(command, "-pg");
    if (options->no_warnings)
        list_add(command, "-w");
    if (options->warnings_are_errors)
        list_add(command, "-Werror");
}

/* The user's -I of a CUDA folder must not come before our headers, nor must its headers be read as the user's. */
static void
add_user_preprocess(const struct driver *driver, struct list *command)
{
    const struct list *list = &driver->options->preprocess;
    for (size_t i = 0; i < list->count; ++i) {
        if (strncmp(list->items[i], "-I", 2) == 0 && toolchain_is_cuda_dir(list->items[i] + 2)) {
            list_add(command, "-isystem");
            list_add(command, list->items[i] + 2);
        } else {
            list_add(command, list->items[i]);
        }
    }
}

static void
add_cuda_dirs(const struct driver *driver, struct list *command)
{
    for (size_t i = 0; i < driver->toolchain->cuda_dirs.count; ++i) {
        list_add(command, "-isystem");
        list_add(command, driver->toolchain->cuda_dirs.items[i]);
    }
}

static void
add_defines(const struct driver *driver, enum language language, struct list *command)
{
    const struct options *options = driver->options;
    list_add(command, "-D__NVCC__");
    if (options->per_thread_stream)
        list_add(command, "-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1");
    if (options->allows_removed && language != LANGUAGE_CUDA) { /* nothing is rewritten there */
        for (const struct removed_call *call = removed_calls; call->name != NULL; ++call)
            list_add_format(command, "-D%s=%s", call->name, call->replacement);
    }
    if (language != LANGUAGE_CUDA)
        return;
    if (options->allows_removed)
        list_add(command, "-DSOFTGPU_ALLOW_REMOVED");
    list_add_format(command, "-D__SOFTGPU_FOLDER__=\"%s\"", driver->toolchain->library_dir);
    if (options->is_relocatable)
        list_add(command, "-D__CUDACC_RDC__");
    if (options->extended_lambda)
        list_add(command, "-D__CUDACC_EXTENDED_LAMBDA__");
    if (options->relaxed_constexpr)
        list_add(command, "-D__CUDACC_RELAXED_CONSTEXPR__");
    if (options->fast_math)
        list_add(command, "-D__USE_FAST_MATH__");
}

/* `object`: what the rule is for, unless the user says. */
static void
add_dependencies(const struct driver *driver, const char *object, struct list *command)
{
    const struct options *options = driver->options;
    if (!options->with_dependencies)
        return;
    list_add(command, options->no_system_dependencies ? "-MMD" : "-MD");
    list_add(command, "-MF");
    if (options->dependency_file != NULL)
        list_add(command, options->dependency_file);
    else
        list_add_format(command, "%.*s.d",
                        (int)(strrchr(object, '.') != NULL ? strrchr(object, '.') - object : (long)strlen(object)),
                        object);
    if (options->phony_dependencies)
        list_add(command, "-MP");
    for (size_t i = 0; i < options->dependency_targets.count; ++i) {
        list_add(command, "-MT");
        list_add(command, options->dependency_targets.items[i]);
    }
    if (options->dependency_targets.count == 0) {
        list_add(command, "-MT");
        list_add(command, object);
    }
}

/* A program may load many modules, with kernels of the same names, and each has its own: nothing of a module is visible
 * to another. Kernels of the same code stay kernels of their own names. */
static void
add_module_flags(struct list *command)
{
    static const char *const flags[] = {"-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", "-fno-ipa-icf"};
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); ++i)
        list_add(command, flags[i]);
}

/*
 * No -ffast-math, and no -march: results are the same wherever the program runs. Kernels need no errno and no
 * floating-point traps, and without them the loops over threads become vector code; a product fused with a sum is what
 * GPUs do too.
 */
static void
add_device_flags(const struct driver *driver, struct list *command)
{
    static const char *const always[] = {"-fno-math-errno", "-fno-trapping-math"};
    static const char *const fast[] = {"-freciprocal-math", "-fno-signed-zeros"};
    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); ++i)
        list_add(command, always[i]);
    list_add(command, driver->options->no_fused_multiply_add ? "-ffp-contract=off" : "-ffp-contract=fast");
    if (driver->options->is_module)
        add_module_flags(command);
    for (size_t i = 0; driver->options->fast_math && i < sizeof(fast) / sizeof(fast[0]); ++i)
        list_add(command, fast[i]);
}

static void
add_cuda_preprocess(const struct driver *driver, struct list *command)
{
    add_common(driver, LANGUAGE_CUDA, command);
    add_device_flags(driver, command);
    list_add(command, "-E");
    list_add(command, "-x");
    list_add(command, "c++");
    list_add_format(command, "-I%s", driver->toolchain->header_dir);
    list_add(command, "-include");
    list_add(command, "softgpu_prelude.h");
    add_defines(driver, LANGUAGE_CUDA, command);
    add_user_preprocess(driver, command);
    add_cuda_dirs(driver, command);
    list_add_all(command, &driver->options->host);
}

/* ---- compiling ---- */

/* Whether the host compiler is asked for warnings. */
static bool
asks_warnings(const struct options *options)
{
    bool asks = false;
    for (size_t i = 0; i < options->host.count; ++i)
        asks = asks || (strncmp(options->host.items[i], "-W", 2) == 0 && strchr(options->host.items[i], ',') == NULL) ||
               strncmp(options->host.items[i], "-pedantic", 9) == 0;
    return asks;
}

/* The caller frees the lists in `paths`. */
static struct rewrite_options
how_to_rewrite(const struct driver *driver)
{
    const struct toolchain *toolchain = driver->toolchain;
    const bool is_module = driver->options->is_module; /* what can be asked for by name is not static there */
    struct rewrite_options how = {.is_relocatable = driver->options->is_relocatable || is_module,
                                  .allows_removed = driver->options->allows_removed,
                                  .shares_templates = driver->options->shares_templates || is_module,
                                  .is_module = is_module,
                                  .device_is_default = driver->options->device_is_default,
                                  .quiets_device = asks_warnings(driver->options)};
    list_add_format(&how.paths.system, "%s/", toolchain->header_dir);
    for (size_t i = 0; i < toolchain->cuda_dirs.count; ++i)
        list_add_format(&how.paths.system, "%s/", toolchain->cuda_dirs.items[i]);
    for (size_t i = 0; i < driver->options->system_dirs.count; ++i) {
        if (!toolchain_is_cuda_dir(driver->options->system_dirs.items[i]))
            list_add_format(&how.paths.not_system, "%s/", driver->options->system_dirs.items[i]);
    }
    return how;
}

/* Where the source asks on which side it is compiled: preprocesses it for the device too, and joins both in *text. */
static int
join_sides(const struct driver *driver, const char *input, const char *from, const struct lex_paths *paths,
           struct text *text)
{
    if (text->data == NULL || driver->options->is_module || !sides_are_asked(text->data, text->length, paths))
        return 0;
    char *path = text_format("%s.device", from);
    struct list command = {0};
    add_cuda_preprocess(driver, &command);
    list_add(&command, "-w"); /* of which the first time has told */
    list_add(&command, "-DSOFTGPU_DEVICE_SIDE");
    list_add(&command, input);
    list_add(&command, "-o");
    list_add(&command, path);
    int status = step_run(driver, &command);
    struct text device = {0}, both = {0};
    if (status == 0) {
        status = read_file(path, &device) && sides_merge(text, &device, paths, &both) ? 0 : EXIT_FAILURE;
        unlink(path);
    }
    free(path);
    text_free(&device);
    if (status == 0) {
        text_free(text);
        *text = both;
    }
    return status;
}

static int
rewrite_file(const struct driver *driver, const char *input, const char *from, const char *to)
{
    if (driver->options->dry_run || driver->options->verbose)
        /* The architecture is nvcc's default, which CMake takes from here. */
        fprintf(stderr, "#$ softgpu-cc: rewrite -arch compute_75 %s -> %s\n", from, to);
    if (driver->options->dry_run)
        return 0;

    struct rewrite_options how = how_to_rewrite(driver);
    struct text in = {0}, out = {0};
    const bool ok = read_file(from, &in) && join_sides(driver, input, from, &how.paths, &in) == 0 &&
                    rewrite(in.data != NULL ? in.data : "", in.length, &how, &out) && write_file(to, &out);
    text_free(&in);
    text_free(&out);
    list_free(&how.paths.system);
    list_free(&how.paths.not_system);
    return ok ? 0 : EXIT_FAILURE;
}

static int
compile_rewritten(const struct driver *driver, const char *rewritten, const char *object)
{
    struct list command = {0};
    add_common(driver, LANGUAGE_CUDA, &command);
    add_device_flags(driver, &command);
    list_add_all(&command, &driver->options->host);
    list_add(&command, "-x");
    list_add(&command, "c++-cpp-output");
    list_add(&command, "-c");
    list_add(&command, rewritten);
    list_add(&command, "-o");
    list_add(&command, object);
    return step_run(driver, &command);
}

static int
compile_cuda(const struct driver *driver, const char *input, size_t number, const char *object)
{
    char *preprocessed = intermediate(driver, input, number, ".1.ii");
    char *rewritten = intermediate(driver, input, number, ".2.ii");
    if (preprocessed == NULL || rewritten == NULL)
        return EXIT_FAILURE;

    struct list command = {0};
    add_cuda_preprocess(driver, &command);
    add_dependencies(driver, object, &command);
    list_add(&command, input);
    list_add(&command, "-o");
    list_add(&command, preprocessed);
    int status = step_run(driver, &command);
    if (status == 0)
        status = rewrite_file(driver, input, preprocessed, rewritten);
    if (status == 0)
        status = compile_rewritten(driver, rewritten, object);
    free(preprocessed);
    free(rewritten);
    return status;
}

static int
compile_host(const struct driver *driver, const char *input, enum language language, const char *object)
{
    struct list command = {0};
    add_common(driver, language, &command);
    add_defines(driver, language, &command);
    add_user_preprocess(driver, &command);
    add_cuda_dirs(driver, &command);
    list_add_all(&command, &driver->options->host);
    add_dependencies(driver, object, &command);
    list_add(&command, "-x");
    list_add(&command, language == LANGUAGE_C ? "c" : "c++");
    list_add(&command, "-c");
    list_add(&command, input);
    list_add(&command, "-o");
    list_add(&command, object);
    return step_run(driver, &command);
}

int
step_compile(struct driver *driver, const struct item *item, size_t number)
{
    const struct options *options = driver->options;
    char *object;
    if (item->language == LANGUAGE_OBJECT) {
        list_add(&driver->objects, item->text);
        return 0;
    }
    if (options->phase != PHASE_COMPILE)
        object = options->dry_run ? text_format("/tmp/softgpu-cc/%zu.o", number)
                                  : intermediate(driver, item->text, number, ".o");
    else
        object = object_of(options, item->text);
    if (object == NULL)
        return EXIT_FAILURE;
    const int status = item->language == LANGUAGE_CUDA ? compile_cuda(driver, item->text, number, object)
                                                       : compile_host(driver, item->text, item->language, object);
    list_add(&driver->objects, object);
    free(object);
    return status;
}

/* -E, -M: the host compiler does all of it. */
int
step_preprocess(const struct driver *driver, const struct item *item)
{
    const struct options *options = driver->options;
    struct list command = {0};
    if (item->language == LANGUAGE_CUDA) {
        add_cuda_preprocess(driver, &command);
    } else {
        add_common(driver, item->language, &command);
        add_defines(driver, item->language, &command);
        list_add(&command, "-E");
        list_add(&command, "-x");
        list_add(&command, item->language == LANGUAGE_C ? "c" : "c++");
        add_user_preprocess(driver, &command);
        add_cuda_dirs(driver, &command);
        list_add_all(&command, &options->host);
    }
    /* -o is the output of this step, and not what the rule is for. */
    char *name = with_ending(item->text, ".o");
    char *object =
        options->output_dir != NULL ? text_format("%s/%s", options->output_dir, name) : text_format("%s", name);
    free(name);
    if (options->phase == PHASE_DEPENDENCIES) {
        list_add(&command, options->no_system_dependencies ? "-MM" : "-M");
        if (options->dependency_file != NULL) {
            list_add(&command, "-MF");
            list_add(&command, options->dependency_file);
        }
        if (options->phony_dependencies)
            list_add(&command, "-MP");
        list_add(&command, "-MT");
        list_add(&command, options->dependency_targets.count > 0 ? options->dependency_targets.items[0] : object);
    } else {
        add_dependencies(driver, object, &command);
    }
    list_add(&command, item->text);
    if (options->output != NULL) {
        list_add(&command, "-o");
        list_add(&command, options->output);
    }
    free(object);
    return step_run(driver, &command);
}
