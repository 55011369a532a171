/*
 * driver.c - see driver.h. Checks the inputs, then takes them through the steps of compile.c and link.c.
 */
#include "driver.h"

#include "steps.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* With -c, nvcc takes no notice of what only a linker needs. */
static bool
is_for_linker(const char *path)
{
    static const char *const endings[] = {".o", ".a", ".so", ".obj", ".lib"};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot != NULL && i < sizeof(endings) / sizeof(endings[0]); ++i) {
        if (strcmp(dot, endings[i]) == 0)
            return true;
    }
    return false;
}

static bool
check(const struct options *options)
{
    size_t sources = 0, inputs = 0;
    for (size_t i = 0; i < options->item_count; ++i) {
        const struct item *item = &options->items[i];
        inputs += item->is_input;
        sources += item->is_input && item->language != LANGUAGE_OBJECT;
        if (item->is_input && access(item->text, R_OK) != 0) {
            complain("%s: %s", item->text, strerror(errno));
            return false;
        }
        if (item->is_input && item->language == LANGUAGE_OBJECT && options->phase == PHASE_COMPILE &&
            !is_for_linker(item->text)) {
            complain("%s: with -c, inputs end in .cu, .cpp, .cc, .cxx or .c, or -x says what they are", item->text);
            return false;
        }
    }
    if (inputs == 0) {
        complain("no input files; softgpu-cc --help shows the options");
        return false;
    }
    if (options->image != NULL && (inputs != 1 || options->phase != PHASE_LINK)) {
        complain("-%s takes one input, makes one file of it, and goes with no other kind of output, such as -c",
                 options->image);
        return false;
    }
    if (sources > 1 && options->output != NULL && options->phase == PHASE_COMPILE) {
        complain("-o %s: one output for %zu inputs; leave -o out, or compile them one by one", options->output,
                 sources);
        return false;
    }
    return true;
}

static int
run_phases(struct driver *driver)
{
    const struct options *options = driver->options;
    const bool only = options->phase == PHASE_PREPROCESS || options->phase == PHASE_DEPENDENCIES;
    if (options->phase == PHASE_DEVICE_LINK)
        return step_device_link(driver);
    for (size_t i = 0; i < options->item_count; ++i) {
        const struct item *item = &options->items[i];
        if (!item->is_input)
            continue;
        const int status = only ? step_preprocess(driver, item) : step_compile(driver, item, i);
        if (status != 0)
            return status;
    }
    if (options->phase == PHASE_LINK)
        return step_link(driver);
    if (options->phase == PHASE_ARCHIVE)
        return step_archive(driver);
    return 0;
}

/* NULL, or the program that --run gets in place of sources: it is only run. */
static const char *
program_to_run(const struct options *options)
{
    const struct item *item = options->items;
    const bool is_lone = options->run && options->item_count == 1 && item->language == LANGUAGE_OBJECT;
    if (!is_lone || is_for_linker(item->text))
        return NULL;
    return access(item->text, X_OK) == 0 ? item->text : NULL;
}

int
driver_run(const struct options *options, const struct toolchain *toolchain)
{
    struct driver driver = {.options = options, .toolchain = toolchain};
    if ((options->verbose || options->dry_run) && !options->is_linker)
        toolchain_show(toolchain);
    if (!check(options))
        return EXIT_USAGE;
    const char *program = program_to_run(options);
    const int status = program != NULL ? step_run_program(&driver, program) : run_phases(&driver);
    list_free(&driver.objects);
    return status;
}
