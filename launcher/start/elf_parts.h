/*
 * elf_parts.h - looks into a dynamically linked ELF file of 64 bits: its segments, its sections, and texts in what is
 * loaded of it. For the question whether a program is annotated (loader.h), and for `ddprun doctor`.
 *
 * Nothing of the file is believed; whatever points outside of it makes it damaged.
 */
#ifndef DDPRUN_LAUNCHER_START_ELF_PARTS_H
#define DDPRUN_LAUNCHER_START_ELF_PARTS_H

#include "launcher/start/elf_file.h"

#include <elf.h>

/* Release with elf_parts_close(). Borrows the source. */
struct elf_parts {
    struct elf_source *source;
    Elf64_Ehdr header;
    Elf64_Phdr *segments;      /* header.e_phnum of them */
    const Elf64_Phdr *dynamic; /* the first with the dynamic section */
};

/* False: no such file, a damaged one, or reading failed (source->error). */
bool elf_parts_open(struct elf_source *source, struct elf_parts *parts) __attribute__((warn_unused_result));
void elf_parts_close(struct elf_parts *parts);

/* `sections`: all of them; `name` of sections[index] is "" where it has none. */
typedef void elf_section_look(const Elf64_Shdr *sections, int index, const char *name, void *data);

/* Calls `look` for each section. False: there are none, or their names cannot be read. */
bool elf_parts_sections(const struct elf_parts *parts, elf_section_look *look, void *data);

/* A text that ends with a NUL in the file too, so that a longer one does not count; at most 31 bytes. */
struct elf_text {
    const char *text;
    bool *found; /* becomes true */
};

/* Looks for the texts in what is loaded, until all are found. False: it is not read to its end, for that would be more
 * than `most` bytes, or it leads outside of the file. */
bool elf_parts_search(const struct elf_parts *parts, const struct elf_text *texts, size_t count, uint64_t most)
    __attribute__((warn_unused_result));

#endif
