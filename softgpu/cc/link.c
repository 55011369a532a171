/*
 * link.c - objects to a program, a shared library, an archive. See steps.h.
 *
 * The host compiler links, with the stand-in's libraries in front of all others, and the note that says what the
 * program is for.
 */
#include "process.h"
#include "steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Libraries of the CUDA toolkit. One that the stand-in does not have must not be found in the toolkit instead. */
static const char *const toolkit_libraries[] = {
    "cudart", "cuda",       "cublas",    "cublasLt", "curand",    "nccl",   "cudnn", "cufft",  "cusparse", "cusolver",
    "nvrtc",  "nvToolsExt", "nvidia-ml", "cupti",    "nvJitLink", "cufile", "npp",   "nvjpeg", NULL,
};

static bool
add_library(const struct driver *driver, const char *argument, struct list *command, bool *static_asked)
{
    const char *name = argument + 2;
    if (strcmp(name, "cudart_static") == 0) {
        *static_asked = !driver->options->is_linker; /* build systems name it without being asked */
        return true;                                 /* -lcudart is always there */
    }
    if (strcmp(name, "cudadevrt") == 0 || strcmp(name, "culibos") == 0)
        return true;
    for (size_t i = 0; toolkit_libraries[i] != NULL; ++i) {
        const size_t length = strlen(toolkit_libraries[i]);
        const bool is_static =
            strncmp(name, toolkit_libraries[i], length) == 0 && strcmp(name + length, "_static") == 0;
        if (strcmp(name, toolkit_libraries[i]) != 0 && !is_static)
            continue;
        char *file = text_format("lib%s.so", toolkit_libraries[i]);
        const bool exists = toolchain_file_exists(driver->toolchain->library_dir, file);
        free(file);
        if (!exists) {
            complain("%s: the stand-in has no such library", argument);
            return false;
        }
        list_add_format(command, "-l%s", toolkit_libraries[i]);
        return true;
    }
    list_add(command, argument);
    return true;
}

static bool
add_items(const struct driver *driver, struct list *command)
{
    const struct options *options = driver->options;
    bool static_asked = options->static_runtime_asked && !options->is_linker;
    size_t object = 0;
    for (size_t i = 0; i < options->item_count; ++i) {
        const struct item *item = &options->items[i];
        if (item->is_input)
            list_add(command, driver->objects.items[object++]);
        else if (strncmp(item->text, "-l", 2) != 0)
            list_add(command, item->text);
        else if (!add_library(driver, item->text, command, &static_asked))
            return false;
    }
    if (static_asked)
        fprintf(stderr,
                "softgpu-cc: note: the stand-in's runtime is a shared library; -cudart static is not possible\n");
    return true;
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
step_link(const struct driver *driver)
{
    static const char *const libraries[] = {"-lcudart", "-lsoftgpu", "-lstdc++", "-lm", "-lpthread", "-ldl"};
    const struct options *options = driver->options;
    const char *dir = driver->toolchain->library_dir;
    struct list command = {0};
    list_add_all(&command, &driver->toolchain->compiler);
    if (options->is_linker && options->verbose)
        list_add(&command, "-v"); /* CMake reads the host compiler's libraries off its linker's command */
    if (options->is_shared) {
        list_add(&command, "-shared");
        list_add(&command, "-Wl,-z,nodelete"); /* the runtime knows kernels by their addresses, for good */
    }
    if (options->debug || options->device_debug)
        list_add(&command, "-g");
    if (options->profile)
        list_add(&command, "-pg");
    list_add_all(&command, &options->host);
    list_add(&command, "-o");
    list_add(&command, options->output != NULL ? options->output : options->is_shared ? "a.so" : "a.out");
    list_add_format(&command, "%s/softgpu_note.o", dir);
    list_add_format(&command, "-L%s", dir);
    list_add_format(&command, "-Wl,-rpath,%s", dir);
    if (has_sanitizer(
            options)) /* its dlopen() hides who asks, so only a path that holds for the whole program is searched */
        list_add(&command, "-Wl,--disable-new-dtags");
    if (!add_items(driver, &command)) {
        list_free(&command);
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); ++i)
        list_add(&command, libraries[i]);
    if (options->verbose && !options->is_linker)
        show_linker(driver);
    return step_run(driver, &command);
}

int
step_archive(const struct driver *driver)
{
    const struct options *options = driver->options;
    struct list command = {0};
    list_add(&command, "ar");
    list_add(&command, options->archive_options != NULL ? options->archive_options : "rcs");
    list_add(&command, options->output != NULL ? options->output : "a.a");
    list_add_all(&command, &driver->objects);
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
    list_add(&command, "-o");
    list_add(&command, options->output != NULL ? options->output : "a_dlink.o");
    return step_run(driver, &command);
}
