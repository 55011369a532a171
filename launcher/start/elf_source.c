/*
 * elf_source.c - see elf_source.h.
 */
#include "launcher/start/elf_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int
elf_source_open(int fd, struct elf_source *source)
{
    struct stat file;
    if (fstat(fd, &file) != 0)
        return errno;
    *source = (struct elf_source){.fd = fd, .length = (uint64_t)file.st_size};
    return 0;
}

struct elf_source
elf_source_memory(const void *bytes, size_t length)
{
    return (struct elf_source){.fd = -1, .bytes = bytes, .length = length};
}

/* pread may stop early, at most at 2 GiB. */
static bool
read_file(struct elf_source *source, unsigned char *to, uint64_t bytes, uint64_t offset)
{
    while (bytes > 0) {
        ssize_t got = pread(source->fd, to, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && source->error == 0)
            source->error = errno;
        if (got <= 0)
            return false;
        to += got;
        offset += (uint64_t)got;
        bytes -= (uint64_t)got;
    }
    return true;
}

bool
elf_source_read(struct elf_source *source, void *to, uint64_t bytes, uint64_t offset)
{
    if (offset > source->length || bytes > source->length - offset)
        return false;
    if (source->fd >= 0)
        return read_file(source, to, bytes, offset);
    if (bytes > 0)
        memcpy(to, source->bytes + offset, bytes);
    return true;
}

char *
elf_source_get(struct elf_source *source, uint64_t bytes, uint64_t offset, uint64_t most)
{
    if (bytes > most || offset > source->length || bytes > source->length - offset)
        return NULL;
    char *to = malloc(bytes + 1);
    if (to == NULL) {
        if (source->error == 0)
            source->error = ENOMEM;
        return NULL;
    }
    if (!elf_source_read(source, to, bytes, offset)) {
        free(to);
        return NULL;
    }
    to[bytes] = '\0';
    return to;
}
