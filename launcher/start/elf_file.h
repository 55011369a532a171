/*
 * elf_file.h - what the launcher must know of a program before it starts it: can a library be preloaded into it, and
 * was it built for GPUs or for the stand-in?
 *
 * Reads the headers only, with checked bounds: files come from users, and may be damaged or change under us.
 */
#ifndef DDPRUN_LAUNCHER_START_ELF_FILE_H
#define DDPRUN_LAUNCHER_START_ELF_FILE_H

#include "launcher/start/elf_source.h"

#include <limits.h>
#include <stdbool.h>

/* softgpu-cc leaves a note with this owner in what it builds. */
#define ELF_SOFTGPU_OWNER "softgpu"

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
};

/* Inspects the open file `fd` (its position is not used). Returns 0, or the errno of a failed read. */
int elf_file_inspect(int fd, struct elf_facts *facts) __attribute__((warn_unused_result));

/* The same of any bytes. */
int elf_file_inspect_source(struct elf_source *source, struct elf_facts *facts) __attribute__((warn_unused_result));

#endif
