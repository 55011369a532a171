/*
 * elf_parts.c - see elf_parts.h. Formats: System V ABI, chapters 4 and 5.
 */
#include "launcher/start/elf_parts.h"

#include <stdlib.h>
#include <string.h>

/* More than any linker writes, little enough to be read at once. */
#define MOST_SEGMENT_BYTES (UINT64_C(64) << 10)
#define MOST_NAMES_BYTES   (UINT64_C(64) << 20)

enum { WINDOW_BYTES = 1 << 20, LONGEST_TEXT = 32 };

bool
elf_parts_open(struct elf_source *source, struct elf_parts *parts_p)
{
    struct elf_parts parts = {.source = source};
    Elf64_Ehdr *header = &parts.header;
    if (!elf_source_read(source, header, sizeof(*header), 0) || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
        header->e_phentsize != sizeof(Elf64_Phdr))
        return false;
    parts.segments = (Elf64_Phdr *)elf_source_get(source, (uint64_t)header->e_phnum * sizeof(Elf64_Phdr),
                                                  header->e_phoff, MOST_SEGMENT_BYTES);
    for (int i = 0; parts.segments != NULL && parts.dynamic == NULL && i < header->e_phnum; ++i) {
        if (parts.segments[i].p_type == PT_DYNAMIC)
            parts.dynamic = &parts.segments[i];
    }
    if (parts.dynamic == NULL) {
        elf_parts_close(&parts);
        return false;
    }
    *parts_p = parts;
    return true;
}

void
elf_parts_close(struct elf_parts *parts)
{
    free(parts->segments);
    parts->segments = NULL;
}

bool
elf_parts_sections(const struct elf_parts *parts, elf_section_look *look, void *data)
{
    const Elf64_Ehdr *header = &parts->header;
    uint64_t bytes = (uint64_t)header->e_shnum * sizeof(Elf64_Shdr);
    if (header->e_shnum == 0 || header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shstrndx >= header->e_shnum)
        return false;
    Elf64_Shdr *sections = (Elf64_Shdr *)elf_source_get(parts->source, bytes, header->e_shoff, bytes);
    if (sections == NULL)
        return false;
    const Elf64_Shdr *titles = &sections[header->e_shstrndx];
    char *names = elf_source_get(parts->source, titles->sh_size, titles->sh_offset, MOST_NAMES_BYTES);
    for (int i = 0; names != NULL && i < header->e_shnum; ++i)
        look(sections, i, sections[i].sh_name < titles->sh_size ? names + sections[i].sh_name : "", data);
    bool read = names != NULL;
    free(names);
    free(sections);
    return read;
}

/* ---- texts ---- */

static bool
all_found(const struct elf_text *texts, size_t count)
{
    size_t i = 0;
    while (i < count && *texts[i].found)
        ++i;
    return i == count;
}

static void
search_window(const struct elf_text *texts, size_t count, const char *window, size_t bytes)
{
    for (size_t i = 0; i < count; ++i) {
        const char *text = texts[i].text;
        *texts[i].found = *texts[i].found || memmem(window, bytes, text, strlen(text) + 1) != NULL;
    }
}

/* Windows overlap, so that no text is cut. `left` is what may still be read of the whole file. */
static bool
search_segment(const struct elf_parts *parts, const Elf64_Phdr *segment, const struct elf_text *texts, size_t count,
               char *window, uint64_t *left)
{
    uint64_t done = 0;
    while (done < segment->p_filesz && !all_found(texts, count)) {
        uint64_t bytes = segment->p_filesz - done;
        if (bytes > WINDOW_BYTES)
            bytes = WINDOW_BYTES;
        if (bytes > *left)
            return false;
        if (!elf_source_read(parts->source, window, bytes, segment->p_offset + done))
            return false;
        search_window(texts, count, window, bytes);
        *left -= bytes;
        done += bytes;
        if (done < segment->p_filesz)
            done -= LONGEST_TEXT;
    }
    return true;
}

bool
elf_parts_search(const struct elf_parts *parts, const struct elf_text *texts, size_t count, uint64_t most)
{
    char *window = malloc(WINDOW_BYTES);
    bool all = window != NULL;
    for (int i = 0; window != NULL && i < parts->header.e_phnum; ++i) {
        if (parts->segments[i].p_type == PT_LOAD)
            all = search_segment(parts, &parts->segments[i], texts, count, window, &most) && all;
    }
    free(window);
    return all;
}
