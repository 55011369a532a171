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
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES_AT_MOST = 16384 };

/* A file is HEAD and its key, a line with bytes and nanoseconds for each sample, and END with the hash (FNV-1a, 64
 * bits) of all before it. */
#define HEAD "ddprun all-reduce cost, version 5: "
#define END  "end "

static bool
cache_path(const char *key, char *path, size_t bytes)
{
    char folder[PATH_MAX - 64];
    if (!engine_state.options.cost_cache || !cache_folder(folder, sizeof(folder)))
        return false;
    snprintf(path, bytes, "%s/all-reduce-%016llx.txt", folder, (unsigned long long)XXH3_64bits(key, strlen(key)));
    return true;
}

/* The file's text; "": it is too long, or it is not a file that this user alone may write. NULL: there is none. A FIFO
 * is not waited for. */
static char *
read_file(const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno != ELOOP)
        return NULL;
    char *text = calloc(1, FILE_BYTES_AT_MOST + 1);
    bool own = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
               (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
    ssize_t length = own && text != NULL ? read(fd, text, FILE_BYTES_AT_MOST) : 0;
    if (length == FILE_BYTES_AT_MOST)
        text[0] = '\0';
    if (fd >= 0)
        close(fd);
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

enum { END_BYTES = sizeof(END) + 18 };

static void
print_end(char end[END_BYTES], const char *text, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < length; ++i)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3;
    snprintf(end, END_BYTES, END "%016" PRIx64 "\n", hash);
}

/* False if the text is not sound, or not for the key. */
static bool
parse(const char *text, const char *key, struct cost_kept *kept)
{
    struct cost ignored;
    size_t head = strlen(HEAD), length = strlen(key);
    if (strncmp(text, HEAD, head) != 0 || strncmp(text + head, key, length) != 0 || text[head + length] != '\n')
        return false;
    const char *begin = text;
    text += head + length + 1;
    for (; strncmp(text, END, strlen(END)) != 0; ++kept->count) {
        int64_t bytes, ns;
        if (kept->count == COST_SAMPLES_AT_MOST || !take_number(&text, ' ', &bytes) || !take_number(&text, '\n', &ns))
            return false;
        kept->samples[kept->count] = (struct cost_sample){(uint64_t)bytes, ns};
    }
    char end[END_BYTES];
    print_end(end, begin, (size_t)(text - begin));
    return strcmp(text, end) == 0 && kept->count > 0 && cost_fit(kept->samples, kept->count, &ignored);
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
    char path[PATH_MAX], beside[PATH_MAX + 32], text[FILE_BYTES_AT_MOST];
    if (!cache_path(key, path, sizeof(path)))
        return;
    size_t room = sizeof(text) - END_BYTES;
    size_t length = (size_t)snprintf(text, room, HEAD "%s\n", key);
    for (size_t i = 0; i < kept->count && length < room; ++i)
        length += (size_t)snprintf(text + length, room - length, "%" PRIu64 " %" PRId64 "\n", kept->samples[i].bytes,
                                   kept->samples[i].ns);
    if (length >= room)
        return;
    print_end(text + length, text, length);
    snprintf(beside, sizeof(beside), "%s.%d", path, (int)getpid());
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        written = close(fd) == 0 && written;
    if (!written || rename(beside, path) != 0) {
        message_warning("cost_cache", "cannot keep what an all-reduce costs in %s: %s; it is measured in each run",
                        path, strerror(errno));
        (void)unlink(beside);
    }
}
