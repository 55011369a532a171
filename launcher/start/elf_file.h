/*
 * elf_file.h - what ddprun must know of a program before it starts it: can a library be preloaded into it, was it built
 * for GPUs or for the stand-in, and is it annotated (loader.h)? For `ddprun doctor`, too.
 *
 * By libelf, which reads a file (pread) and does not map it: files come from users, and may be damaged or be cut while
 * they are looked at. Nothing of the file is believed; whatever points outside of it makes it damaged.
 */
#ifndef DDPRUN_LAUNCHER_START_ELF_FILE_H
#define DDPRUN_LAUNCHER_START_ELF_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An open file, which stays the caller's, and whose position is not used. Released with elf_file_close(). */
struct elf_file {
    int fd;
    struct Elf *elf; /* NULL: libelf could not open it */
};

/* Returns 0, or the errno of a failed read. */
int elf_file_open(int fd, struct elf_file *file) __attribute__((warn_unused_result));
void elf_file_close(struct elf_file *file);

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

struct elf_facts elf_file_facts(const struct elf_file *file);

/* The same of the open file `fd`. Returns 0, or the errno of a failed read. */
int elf_file_inspect(int fd, struct elf_facts *facts) __attribute__((warn_unused_result));

/* ---- what is in it ---- */

/* Whether it is of 64 bits, and has a dynamic section that lies within it: of other files the two below say nothing. */
bool elf_file_is_dynamic(const struct elf_file *file);

/* Whether it has a section with bytes whose name `is_wanted`. */
bool elf_file_has_section(const struct elf_file *file, bool (*is_wanted)(const char *name));

/* Whether a text of at most 31 bytes, which ends with a NUL in the file too, so that a longer one does not count, is in
 * what is loaded. False: it is not read to its end, for it leads outside of the file. */
bool elf_file_search(const struct elf_file *file, const char *text, bool *found) __attribute__((warn_unused_result));

/* A library that the file itself needs (DT_NEEDED) and whose name begins with `beginning`, into name[bytes]. False: it
 * needs none, or the name does not fit. */
bool elf_file_needs(const struct elf_file *file, const char *beginning, char *name, size_t bytes);

#endif
