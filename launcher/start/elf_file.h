/*
 * elf_file.h - what the launcher must know of a program before it starts it: can a library be preloaded into it, and
 * was it built for GPUs or for the stand-in?
 *
 * Reads the headers only, with checked bounds: files come from users, and may be damaged or change under us.
 */
#ifndef DDPRUN_LAUNCHER_START_ELF_FILE_H
#define DDPRUN_LAUNCHER_START_ELF_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The bytes of a file that is not trusted: an open file, or memory. The parsers of ELF files read through it and
 * through nothing else, so that none of them can leave the file, and that a test can give them any bytes. Files are
 * read with pread, not mapped: a file that is cut while it is being looked at would end the process. Borrows what it
 * reads from; copied freely.
 */
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

/* ---- what it is ---- */

/* softgpu-cc leaves a note with this owner in what it builds. */
#define ELF_SOFTGPU_OWNER "softgpu"

enum { ELF_BUILD_ID_BYTES = 64 }; /* of longer ones, the first */

enum elf_kind {
    ELF_KIND_DYNAMIC,       /* a program with a dynamic loader: can be preloaded */
    ELF_KIND_STATIC,        /* a program without one */
    ELF_KIND_NOT_ELF,       /* a script, or something else */
    ELF_KIND_OTHER_MACHINE, /* built for another processor or word size */
    ELF_KIND_NOT_LINKED,    /* an object file or a core dump */
    ELF_KIND_LIBRARY,       /* a shared library that is no program too */
    ELF_KIND_DAMAGED,       /* says that it is ELF, but its headers point outside of the file */
};

struct elf_facts {
    enum elf_kind kind;
    bool built_for_softgpu;        /* carries the stand-in's note; for DYNAMIC, STATIC and LIBRARY */
    char softgpu_folder[PATH_MAX]; /* of the stand-in that its CUDA source was compiled for; "": it has none */
    char interpreter[PATH_MAX];    /* the dynamic loader that it asks for; for DYNAMIC */
    char build_id[2 * ELF_BUILD_ID_BYTES + 1]; /* hexadecimal; "": it has none */
};

/* Inspects the open file `fd` (its position is not used). Returns 0, or the errno of a failed read. */
int elf_file_inspect(int fd, struct elf_facts *facts) __attribute__((warn_unused_result));

/* The same of any bytes. */
int elf_file_inspect_source(struct elf_source *source, struct elf_facts *facts) __attribute__((warn_unused_result));

#endif
