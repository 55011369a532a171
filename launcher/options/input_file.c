/*
 * input_file.c - see input_file.h.
 */
#include "launcher/options/input_file.h"

#include "base/protocol.h"
#include "launcher/common/xcalloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool
cannot_read(const char *path, const char *use, const char *advice, struct error *error)
{
    return error_set(error, DDPRUN_EXIT_USAGE, "cannot read %.512s, %s: %s; %s", path, use, strerror(errno), advice);
}

bool
input_file_read(const char *path, const char *use, const char *advice, char **bytes_p, size_t *length_p,
                struct error *error)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return cannot_read(path, use, advice, error);
    char *bytes = xcalloc(INPUT_FILE_MOST_BYTES + 2, 1);
    size_t length = fread(bytes, 1, INPUT_FILE_MOST_BYTES + 1, file);
    bool ok = true;
    if (ferror(file) != 0)
        ok = cannot_read(path, use, advice, error);
    else if (length > INPUT_FILE_MOST_BYTES)
        ok = error_set(error, DDPRUN_EXIT_USAGE, "%.512s, %s, is larger than 1 MiB; %s", path, use, advice);
    fclose(file);
    if (!ok) {
        free(bytes);
        return false;
    }
    *bytes_p = bytes;
    *length_p = length;
    return true;
}
