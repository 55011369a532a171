/*
 * elf_source.h - the bytes of a file that is not trusted: an open file, or memory.
 *
 * The parsers of ELF files read through it and through nothing else, so that none of them can leave the file, and that
 * a test can give them any bytes. Files are read with pread, not mapped: a file that is cut while it is being looked at
 * would end the process.
 */
#ifndef DDPRUN_LAUNCHER_START_ELF_SOURCE_H
#define DDPRUN_LAUNCHER_START_ELF_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Borrows what it reads from; copied freely. */
struct elf_source {
    int fd;                     /* -1: memory */
    const unsigned char *bytes; /* with fd -1 */
    uint64_t length;            /* of the file, when it was opened */
    int error;                  /* errno of the first read that failed; 0: none did */
};

/* The open file `fd`, whose position is not used. Returns 0, or errno. */
int elf_source_open(int fd, struct elf_source *source) __attribute__((warn_unused_result));

struct elf_source elf_source_memory(const void *bytes, size_t length);

/* Reads exactly [offset, offset + bytes). False: not all of that is in the file, or reading failed (source->error). */
bool elf_source_read(struct elf_source *source, void *to, uint64_t bytes, uint64_t offset)
    __attribute__((warn_unused_result));

/* The same into new memory with a NUL behind it, to be freed; NULL also when it is more than `most` bytes. */
char *elf_source_get(struct elf_source *source, uint64_t bytes, uint64_t offset, uint64_t most)
    __attribute__((warn_unused_result));

#endif
