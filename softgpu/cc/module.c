/*
 * module.c - -ptx, -cubin, -fatbin: writes the module that link.c has made as a file that a program loads by
 * cuModuleLoad. libnvrtc, which calls softgpu-cc by --softgpu-module, gets the shared library itself.
 */
#include "steps.h"

#include "../nvrtc/container.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool
read_module(const char *path, struct buffer *module)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    bool ok = file >= 0 && buffer_add_file(module, file) && !module->failed;
    if (file >= 0)
        close(file);
    return ok;
}

static bool
write_to(FILE *file, const struct buffer *bytes)
{
    return fwrite(bytes->data, 1, bytes->length, file) == bytes->length && fflush(file) == 0;
}

/* Copies the library to standard output, so that the caller has no file to remove. */
static int
write_library(const struct buffer *module)
{
    if (write_to(stdout, module))
        return 0;
    complain("cannot write the module to standard output");
    return EXIT_FAILURE;
}

/* NAME.ptx of folder/NAME.cu, the one input. */
static char *
output_of(const struct options *options)
{
    const char *name = "a", *dot;
    for (size_t i = 0; i < options->item_count; ++i) {
        if (options->items[i].is_input)
            name = options->items[i].text;
    }
    const char *slash = strrchr(name, '/');
    name = slash != NULL ? slash + 1 : name;
    dot = strrchr(name, '.');
    const size_t length = dot != NULL ? (size_t)(dot - name) : strlen(name);
    char *file = text_format("%.*s.%s", (int)length, name, options->image);
    char *output = step_output(options, file);
    free(file);
    return output;
}

static int
write_image(const struct options *options, const struct buffer *image)
{
    char *output = output_of(options);
    FILE *file = fopen(output, "we");
    bool ok = file != NULL && write_to(file, image);
    const int why = errno;
    if (file != NULL)
        ok = fclose(file) == 0 && ok;
    if (!ok)
        complain("cannot write %s: %s", output, strerror(why));
    free(output);
    return ok ? 0 : EXIT_FAILURE;
}

int
step_write_module(const struct driver *driver, const char *library)
{
    struct buffer module = {NULL, 0, 0, false}, image = {NULL, 0, 0, false};
    const char *form = driver->options->image;
    int status = EXIT_FAILURE;
    if (!read_module(library, &module)) {
        complain("cannot read the module %s", library);
        return status;
    }
    if (form == NULL) {
        status = write_library(&module);
    } else {
        if (strcmp(form, "ptx") == 0)
            container_write_text(module.data, module.length, &image);
        else
            container_write_cubin(module.data, module.length, &image);
        status = image.failed ? EXIT_FAILURE : write_image(driver->options, &image);
    }
    buffer_free(&module);
    buffer_free(&image);
    return status;
}
