/*
 * link.c - objects to a program, a shared library, an archive. See steps.h.
 *
 * The host compiler links, with the stand-in's libraries in front of all others, and the note that says what the
 * program is for. Order is nvcc's: objects and archives first, in one group with all libraries, so that libraries may
 * stand before what needs them; as softgpu-link, which takes a host compiler's place, it is that of the command line.
 */
#include "process.h"
#include "steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUNTIME_FILE "libcudart.so.13"

/*
 * Libraries of the CUDA toolkit, and the file of each in the stand-in, which is linked itself: `-lcudart` would find
 * the forwarders of softgpu/forward. One that the stand-in does not have must not be found in the toolkit instead: it
 * is an empty archive, and a program that calls it does not link. Its functions begin with `prefix`.
 */
static const struct {
    const char *name, *file, *prefix;
} toolkit_libraries[] = {
    {"cudart", RUNTIME_FILE, NULL},
    {"cuda", "libcuda.so.1", NULL},
    {"cublas", "libcublas.so.13", NULL},
    {"cublasLt", "libcublasLt.so.13", NULL},
    {"curand", "libcurand.so.10", NULL},
    {"nccl", "libnccl.so.2", NULL},
    {"nvrtc", "libnvrtc.so.13", NULL},
    {"cudnn", NULL, "cudnn"},
    {"cufft", "libcufft.a", NULL},
    {"cusparse", "libcusparse.a", NULL},
    {"cusolver", "libcusolver.a", NULL},
    {"nvToolsExt", NULL, "nvtx"},
    {"cupti", NULL, "cupti"},
    {"nvJitLink", NULL, "nvJitLink"},
    {"cufile", NULL, "cuFile"},
    {"npp", NULL, "npp"},
    {"nvjpeg", NULL, "nvjpeg"},
};

enum { LIBRARIES = sizeof(toolkit_libraries) / sizeof(toolkit_libraries[0]) };

/* What the command line asks for. */
struct asked {
    bool is_static; /* the runtime */
    bool has_any_absent;
    bool absent[LIBRARIES]; /* of toolkit_libraries */
};

static void
add_library(const struct options *options, const char *argument, struct list *command, struct asked *asked)
{
    const char *name = argument + 2;
    if (strcmp(name, "cudart_static") == 0) {
        asked->is_static = !options->is_linker; /* build systems name it without being asked */
        return;                                 /* -lcudart is always there */
    }
    if (strcmp(name, "cudadevrt") == 0 || strcmp(name, "culibos") == 0)
        return;
    for (size_t i = 0; i < LIBRARIES; ++i) {
        const char *library = toolkit_libraries[i].name;
        const size_t length = strlen(library);
        const bool is_static = strncmp(name, library, length) == 0 && strcmp(name + length, "_static") == 0;
        if (strcmp(name, library) != 0 && !is_static)
            continue;
        if (toolkit_libraries[i].file != NULL)
            list_add_format(command, "-l:%s", toolkit_libraries[i].file);
        else
            asked->absent[i] = asked->has_any_absent = true;
        return;
    }
    list_add(command, argument);
}

static void
add_items(const struct driver *driver, struct list *command, struct asked *asked)
{
    const struct options *options = driver->options;
    size_t object = 0;
    if (!options->is_linker) {
        list_add(command, "-Wl,--start-group");
        list_add_all(command, &driver->objects);
    }
    for (size_t i = 0; i < options->item_count; ++i) {
        const struct item *item = &options->items[i];
        if (item->is_input && !options->is_linker)
            continue;
        if (item->is_input)
            list_add(command, driver->objects.items[object++]);
        else if (strncmp(item->text, "-l", 2) != 0)
            list_add(command, item->text);
        else
            add_library(options, item->text, command, asked);
    }
    if (asked->is_static)
        fprintf(stderr,
                "softgpu-cc: note: the stand-in's runtime is a shared library; -cudart static is not possible\n");
}

/* Of a linker's line that a reference is undefined: the function, if it is of a library that the stand-in lacks. */
static void
name_absent(const char *line, const struct asked *asked)
{
    const char *quote = strstr(line, "undefined reference to");
    const char *name = quote != NULL ? strpbrk(quote, "`'") : NULL;
    for (size_t i = 0; name != NULL && i < LIBRARIES; ++i) {
        const char *prefix = toolkit_libraries[i].prefix;
        if (asked->absent[i] && strncmp(name + 1, prefix, strlen(prefix)) == 0)
            complain("%.*s: the stand-in has no -l%s", (int)strcspn(name + 1, "'\n"), name + 1,
                     toolkit_libraries[i].name);
    }
}

/* Links where libraries that the stand-in lacks are named: what is missing of them is said by name. */
static int
link_without(const struct driver *driver, struct list *command, const struct asked *asked)
{
    char *path = process_temporary("link-errors"), *line = NULL;
    size_t room = 0;
    if (path == NULL)
        return EXIT_FAILURE;
    if (driver->options->verbose)
        process_show(command);
    const int status = process_run(command, path);
    FILE *errors = fopen(path, "re");
    while (errors != NULL && getline(&line, &room, errors) >= 0)
        fputs(line, stderr);
    if (errors != NULL && status != 0) {
        rewind(errors);
        while (getline(&line, &room, errors) >= 0)
            name_absent(line, asked);
    }
    if (errors != NULL)
        fclose(errors);
    free(line);
    free(path);
    list_free(command);
    return status;
}

static bool
has_sanitizer(const struct options *options)
{
    for (size_t i = 0; i < options->host.count; ++i) {
        if (strncmp(options->host.items[i], "-fsanitize=", 11) == 0)
            return true;
    }
    return false;
}

/*
 * With -v, the link step as build systems may do it themselves. CMake looks for the line that has what `LIBRARIES=`
 * says (toolchain_show), and links with the command that begins it.
 */
static void
show_linker(const struct driver *driver)
{
    struct list command = {0};
    list_add_format(&command, "%s/toolkit/bin/softgpu-link", driver->toolchain->library_dir);
    list_add_format(&command, "-L%s", driver->toolchain->library_dir);
    list_add(&command, "-lcudart");
    list_add_all(&command, &driver->objects);
    process_show(&command);
    list_free(&command);
}

int
step_run_program(const struct driver *driver, const char *program)
{
    struct list command = {0};
    list_add_format(&command, "%s%s", strchr(program, '/') != NULL ? "" : "./", program);
    list_add_all(&command, &driver->options->run_arguments);
    return step_run(driver, &command);
}

static char *
output_of(const struct options *options)
{
    if (options->is_module)
        return process_temporary("module.so");
    return step_output(options, options->is_shared ? "a.so" : "a.out");
}

int
step_link(const struct driver *driver)
{
    static const char *const libraries[] = {"-lsoftgpu", "-lstdc++", "-lm", "-lpthread", "-ldl"};
    const struct options *options = driver->options;
    const char *dir = driver->toolchain->library_dir;
    struct list command = {0};
    list_add_all(&command, &driver->toolchain->compiler);
    if (options->is_linker && options->verbose)
        list_add(&command, "-v"); /* CMake reads the host compiler's libraries off its linker's command */
    if (options->is_shared || options->is_module) {
        list_add(&command, "-shared");
        if (options->is_module)
            list_add(&command, "-Wl,-Bsymbolic");
        list_add(&command, "-Wl,-z,nodelete"); /* the runtime knows kernels by their addresses, for good */
    }
    if (options->debug || options->device_debug)
        list_add(&command, "-g");
    if (options->profile)
        list_add(&command, "-pg");
    list_add_all(&command, &options->host);
    char *output = output_of(options);
    if (output == NULL) {
        list_free(&command);
        return EXIT_FAILURE;
    }
    list_add(&command, "-o");
    list_add(&command, output);
    list_add_format(&command, "%s/softgpu_note.o", dir);
    list_add_format(&command, "-L%s", dir);
    list_add_format(&command, "-Wl,-rpath,%s", dir);
    if (has_sanitizer(
            options)) /* its dlopen() hides who asks, so only a path that holds for the whole program is searched */
        list_add(&command, "-Wl,--disable-new-dtags");
    struct asked asked = {.is_static = options->static_runtime_asked && !options->is_linker};
    add_items(driver, &command, &asked);
    if (!options->is_module) /* which launches nothing */
        list_add(&command, "-l:" RUNTIME_FILE);
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); ++i)
        list_add(&command, libraries[i]);
    if (!options->is_linker)
        list_add(&command, "-Wl,--end-group");
    if (options->verbose && !options->is_linker)
        show_linker(driver);
    int status =
        asked.has_any_absent && !options->dry_run ? link_without(driver, &command, &asked) : step_run(driver, &command);
    if (status == 0 && options->run)
        status = step_run_program(driver, output);
    if (status == 0 && options->is_module && !options->dry_run)
        status = step_write_module(driver, output);
    free(output);
    return status;
}

int
step_archive(const struct driver *driver)
{
    const struct options *options = driver->options;
    struct list command = {0};
    char *output = step_output(options, "a.a");
    list_add(&command, options->archiver != NULL ? options->archiver : "ar");
    list_add(&command, options->archive_options != NULL ? options->archive_options : "rcs");
    list_add(&command, output);
    list_add_all(&command, &driver->objects);
    free(output);
    return step_run(driver, &command);
}

/* Builds with -rdc have a step that links device code. Here that is done already; an object without content is what
 * they get. */
int
step_device_link(const struct driver *driver)
{
    const struct options *options = driver->options;
    struct list command = {0};
    list_add_all(&command, &driver->toolchain->compiler);
    list_add(&command, "-x");
    list_add(&command, "c++");
    list_add(&command, "-c");
    list_add(&command, "/dev/null");
    char *output = step_output(options, "a_dlink.o");
    list_add(&command, "-o");
    list_add(&command, output);
    free(output);
    return step_run(driver, &command);
}
