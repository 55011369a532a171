/*
 * cost_cache.c - what an all-reduce costs, kept from run to run: one small file for each machine and world in
 * ${XDG_CACHE_HOME:-~/.cache}/ddprun.
 *
 * A file is written beside its place and renamed, so that readers see all of it or nothing. It is believed only if it
 * is whole, of this version and for the same key; anything else counts as not there. --no-cost-cache turns all of it
 * off. Nothing here ever fails the job.
 */
#include "interpose/engine/measure/measure.h"

#include "base/cache_folder.h"
#include "base/message.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_BYTES_AT_MOST = 16384 };

/* A file is HEAD and its key, a line with bytes and nanoseconds for each sample, and END, which shows that it is whole.
 */
#define HEAD "ddprun all-reduce cost, version 4: "
#define END  "end\n"

static bool
cache_path(const char *key, char *path, size_t bytes)
{
    char folder[PATH_MAX - 64];
    if (!engine_state.options.cost_cache || !cache_folder(folder, sizeof(folder)))
        return false;
    snprintf(path, bytes, "%s/all-reduce-%016llx.txt", folder, (unsigned long long)XXH3_64bits(key, strlen(key)));
    return true;
}

/* The file's text, or NULL; NULL without errno when it is too long to be a cache of costs. */
static char *
read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return NULL;
    char *text = calloc(1, FILE_BYTES_AT_MOST + 1);
    size_t length = text != NULL ? fread(text, 1, FILE_BYTES_AT_MOST, file) : 0;
    if (length == FILE_BYTES_AT_MOST)
        text[0] = '\0';
    fclose(file);
    return text;
}

/* A number from 1 on and the character behind it, which *text_p is moved past. */
static bool
take_number(const char **text_p, char behind, int64_t *number_p)
{
    char *end;
    errno = 0;
    *number_p = strtoll(*text_p, &end, 10);
    if (errno != 0 || *number_p < 1 || *end != behind)
        return false;
    *text_p = end + 1;
    return true;
}

/* False if the text is not sound, or not for the key. */
static bool
parse(const char *text, const char *key, struct cost_kept *kept)
{
    struct cost ignored;
    size_t head = strlen(HEAD), length = strlen(key);
    if (strncmp(text, HEAD, head) != 0 || strncmp(text + head, key, length) != 0 || text[head + length] != '\n')
        return false;
    text += head + length + 1;
    for (; strcmp(text, END) != 0; ++kept->count) {
        int64_t bytes, ns;
        if (kept->count == COST_SAMPLES_AT_MOST || !take_number(&text, ' ', &bytes) || !take_number(&text, '\n', &ns))
            return false;
        kept->samples[kept->count] = (struct cost_sample){(uint64_t)bytes, ns};
    }
    return kept->count > 0 && cost_fit(kept->samples, kept->count, &ignored);
}

void
cost_cache_read(const char *key, struct cost_kept *kept)
{
    char path[PATH_MAX];
    *kept = (struct cost_kept){0};
    if (!cache_path(key, path, sizeof(path)))
        return;
    char *text = read_file(path);
    if (text == NULL)
        return;
    if (!parse(text, key, kept)) {
        *kept = (struct cost_kept){0};
        message_warning("cost_cache",
                        "%s is not a measurement of this machine and this version: ignored, and measured again", path);
    }
    free(text);
}

void
cost_cache_write(const char *key, const struct cost_kept *kept)
{
    char path[PATH_MAX], beside[PATH_MAX + 32];
    if (!cache_path(key, path, sizeof(path)))
        return;
    snprintf(beside, sizeof(beside), "%s.%d", path, (int)getpid());
    FILE *file = fopen(beside, "wxe");
    bool written = file != NULL && fprintf(file, HEAD "%s\n", key) > 0;
    for (size_t i = 0; i < kept->count && written; ++i)
        written = fprintf(file, "%" PRIu64 " %" PRId64 "\n", kept->samples[i].bytes, kept->samples[i].ns) > 0;
    written = written && fputs(END, file) >= 0;
    if (file != NULL)
        written = fclose(file) == 0 && written;
    if (!written || rename(beside, path) != 0) {
        message_warning("cost_cache", "cannot keep what an all-reduce costs in %s: %s; it is measured in each run",
                        path, strerror(errno));
        (void)unlink(beside);
    }
}
