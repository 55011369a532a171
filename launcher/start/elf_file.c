/*
 * elf_file.c - see elf_file.h. Formats: System V ABI, chapters 4 and 5; notes: "Note Section" there.
 */
#include "launcher/start/elf_file.h"

#include <errno.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(void *) == 8, "the shim is 64 bits wide");

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#else
#error "name this processor's e_machine"
#endif

/* Notes and what a program tells its loader are far smaller than that. */
enum { MOST_BYTES = 1 << 20, WINDOW_BYTES = 1 << 20, LONGEST_TEXT = 32 };

/* Reads exactly [offset, offset + bytes); false: not all of that is there. pread may stop early. */
static bool
read_at(const struct elf_file *file, unsigned char *to, uint64_t bytes, uint64_t offset)
{
    while (bytes > 0) {
        ssize_t got = pread(file->fd, to, bytes, (off_t)offset);
        if (got == 0 || (got < 0 && errno != EINTR))
            return false;
        to += got > 0 ? got : 0;
        offset += got > 0 ? (uint64_t)got : 0;
        bytes -= got > 0 ? (uint64_t)got : 0;
    }
    return true;
}

/* ---- opening ---- */

int
elf_file_open(int fd, struct elf_file *file)
{
    unsigned char first;
    *file = (struct elf_file){.fd = fd};
    errno = 0;
    if (!read_at(file, &first, 1, 0) && errno != 0)
        return errno;
    if (elf_version(EV_CURRENT) != EV_NONE)
        file->elf = elf_begin(fd, ELF_C_READ, NULL);
    return 0;
}

void
elf_file_close(struct elf_file *file)
{
    elf_end(file->elf);
    file->elf = NULL;
}

/* The first segment of the kind from *at_p on, which goes past it. */
static bool
next_segment(const struct elf_file *file, GElf_Word type, size_t *at_p, GElf_Phdr *segment)
{
    size_t count = 0;
    if (elf_getphdrnum(file->elf, &count) != 0)
        return false;
    while (*at_p < count && gelf_getphdr(file->elf, (int)(*at_p)++, segment) != NULL) {
        if (segment->p_type == type)
            return true;
    }
    return false;
}

/* NULL: it is too long, or leads outside of the file. */
static Elf_Data *
read_segment(const struct elf_file *file, const GElf_Phdr *segment, Elf_Type type)
{
    if (segment->p_filesz > MOST_BYTES)
        return NULL;
    return elf_getdata_rawchunk(file->elf, (int64_t)segment->p_offset, segment->p_filesz, type);
}

/* ---- what it is ---- */

/* Type 2 (softgpu/object.h) has the stand-in's folder. A description that is no text says nothing. */
static void
take_note(const GElf_Nhdr *note, const char *name, const char *description, struct elf_facts *facts)
{
    bool is_softgpu =
        note->n_namesz == sizeof(ELF_SOFTGPU_OWNER) && memcmp(name, ELF_SOFTGPU_OWNER, note->n_namesz) == 0;
    facts->built_for_softgpu = facts->built_for_softgpu || is_softgpu;
    if (is_softgpu && note->n_type == 2 && note->n_descsz > 0 && note->n_descsz <= sizeof(facts->softgpu_folder) &&
        description[note->n_descsz - 1] == '\0')
        memcpy(facts->softgpu_folder, description, note->n_descsz);
    if (note->n_type != NT_GNU_BUILD_ID || note->n_namesz != 4 || memcmp(name, "GNU", 4) != 0)
        return;
    for (size_t i = 0; i < note->n_descsz && i < ELF_BUILD_ID_BYTES; ++i)
        snprintf(facts->build_id + 2 * i, 3, "%02x", (unsigned char)description[i]);
}

/* False: they are not in the file. Longer ones are none of softgpu-cc's. */
static bool
inspect_notes(const struct elf_file *file, struct elf_facts *facts)
{
    GElf_Phdr segment;
    for (size_t next = 0; next_segment(file, PT_NOTE, &next, &segment);) {
        Elf_Data *data = read_segment(file, &segment, segment.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
        GElf_Nhdr note;
        size_t at = 0, name, description;
        if (data == NULL && segment.p_filesz <= MOST_BYTES)
            return false;
        while (data != NULL && (at = gelf_getnote(data, at, &note, &name, &description)) > 0)
            take_note(&note, (char *)data->d_buf + name, (char *)data->d_buf + description, facts);
    }
    return true;
}

static bool
inspect_interpreter(const struct elf_file *file, struct elf_facts *facts)
{
    GElf_Phdr segment;
    size_t next = 0;
    if (!next_segment(file, PT_INTERP, &next, &segment))
        return true;
    const Elf_Data *data = read_segment(file, &segment, ELF_T_BYTE);
    facts->kind = ELF_KIND_DYNAMIC;
    if (data == NULL || data->d_size < 2 || data->d_size > sizeof(facts->interpreter))
        return false;
    memcpy(facts->interpreter, data->d_buf, data->d_size);
    return facts->interpreter[0] != '\0' && facts->interpreter[data->d_size - 1] == '\0';
}

/* Linkers mark a position independent program by DF_1_PIE, also a static one; without it, and without a loader's name,
 * such a file is a library. */
static bool
is_library(const struct elf_file *file)
{
    GElf_Phdr segment;
    GElf_Dyn entry;
    size_t next = 0;
    Elf_Data *data = next_segment(file, PT_DYNAMIC, &next, &segment) ? read_segment(file, &segment, ELF_T_DYN) : NULL;
    bool is_program = data == NULL;
    for (int i = 0; !is_program && gelf_getdyn(data, i, &entry) != NULL && entry.d_tag != DT_NULL; ++i)
        is_program = entry.d_tag == DT_FLAGS_1 && (entry.d_un.d_val & DF_1_PIE) != 0;
    return !is_program;
}

/* Whether all that is loaded of it is there: a copy may have been cut. */
static bool
is_whole(const struct elf_file *file)
{
    GElf_Phdr segment;
    unsigned char last;
    for (size_t next = 0; next_segment(file, PT_LOAD, &next, &segment);) {
        if (segment.p_filesz > 0 && !read_at(file, &last, 1, segment.p_offset + segment.p_filesz - 1))
            return false;
    }
    return true;
}

struct elf_facts
elf_file_facts(const struct elf_file *file)
{
    struct elf_facts facts = {.kind = ELF_KIND_NOT_ELF};
    unsigned char ident[EI_NIDENT];
    GElf_Ehdr header;
    GElf_Phdr segment;
    if (!read_at(file, ident, sizeof(ident), 0) || memcmp(ident, ELFMAG, SELFMAG) != 0) {
        /* the kernel looks at these four bytes as well */
    } else if (ident[EI_CLASS] != ELFCLASS64 || ident[EI_DATA] != ELFDATA2LSB) {
        facts.kind = ELF_KIND_OTHER_MACHINE;
    } else if (gelf_getehdr(file->elf, &header) == NULL) {
        facts.kind = ELF_KIND_DAMAGED;
    } else if (header.e_machine != OUR_MACHINE) {
        facts.kind = ELF_KIND_OTHER_MACHINE;
    } else if (header.e_type != ET_EXEC && header.e_type != ET_DYN) {
        facts.kind = ELF_KIND_NOT_LINKED;
    } else {
        facts.kind = ELF_KIND_STATIC;
        if (header.e_phentsize != sizeof(Elf64_Phdr) || gelf_getphdr(file->elf, 0, &segment) == NULL ||
            !is_whole(file) || !inspect_interpreter(file, &facts) || !inspect_notes(file, &facts))
            facts.kind = ELF_KIND_DAMAGED;
        else if (facts.kind == ELF_KIND_STATIC && header.e_type == ET_DYN && is_library(file))
            facts.kind = ELF_KIND_LIBRARY;
    }
    return facts;
}

int
elf_file_inspect(int fd, struct elf_facts *facts)
{
    struct elf_file file;
    int cause = elf_file_open(fd, &file);
    if (cause == 0) {
        *facts = elf_file_facts(&file);
        elf_file_close(&file);
    }
    return cause;
}

/* ---- what is in it ---- */

bool
elf_file_is_dynamic(const struct elf_file *file)
{
    GElf_Phdr segment;
    size_t next = 0;
    return gelf_getclass(file->elf) == ELFCLASS64 && next_segment(file, PT_DYNAMIC, &next, &segment) &&
           read_segment(file, &segment, ELF_T_BYTE) != NULL;
}

bool
elf_file_has_section(const struct elf_file *file, bool (*is_wanted)(const char *name))
{
    size_t names;
    GElf_Shdr header;
    if (elf_getshdrstrndx(file->elf, &names) != 0)
        return false;
    for (Elf_Scn *section = NULL; (section = elf_nextscn(file->elf, section)) != NULL;) {
        const char *name = gelf_getshdr(section, &header) != NULL ? elf_strptr(file->elf, names, header.sh_name) : NULL;
        if (name != NULL && header.sh_type != SHT_NOBITS && is_wanted(name))
            return true;
    }
    return false;
}

/* Windows overlap, so that no text is cut. */
static bool
search_segment(const struct elf_file *file, const GElf_Phdr *segment, const char *text, unsigned char *window,
               bool *found)
{
    uint64_t done = 0;
    while (done < segment->p_filesz && !*found) {
        uint64_t bytes = segment->p_filesz - done;
        if (bytes > WINDOW_BYTES)
            bytes = WINDOW_BYTES;
        if (!read_at(file, window, bytes, segment->p_offset + done))
            return false;
        *found = memmem(window, bytes, text, strlen(text) + 1) != NULL;
        done += bytes;
        if (done < segment->p_filesz)
            done -= LONGEST_TEXT;
    }
    return true;
}

bool
elf_file_search(const struct elf_file *file, const char *text, bool *found)
{
    unsigned char *window = malloc(WINDOW_BYTES);
    bool all = window != NULL;
    GElf_Phdr segment;
    *found = false;
    for (size_t next = 0; window != NULL && !*found && next_segment(file, PT_LOAD, &next, &segment);)
        all = search_segment(file, &segment, text, window, found) && all;
    free(window);
    return all;
}

/* The first section of the type; NULL: none. */
static Elf_Scn *
find_section(const struct elf_file *file, GElf_Word type, GElf_Shdr *header)
{
    Elf_Scn *section = elf_nextscn(file->elf, NULL);
    while (section != NULL && (gelf_getshdr(section, header) == NULL || header->sh_type != type))
        section = elf_nextscn(file->elf, section);
    return section;
}

bool
elf_file_needs(const struct elf_file *file, const char *beginning, char *name, size_t bytes)
{
    GElf_Shdr header;
    GElf_Dyn entry;
    Elf_Scn *section = find_section(file, SHT_DYNAMIC, &header);
    Elf_Data *data = section != NULL ? elf_getdata(section, NULL) : NULL;
    for (int i = 0; data != NULL && gelf_getdyn(data, i, &entry) != NULL; ++i) {
        if (entry.d_tag != DT_NEEDED)
            continue;
        const char *library = elf_strptr(file->elf, header.sh_link, entry.d_un.d_val);
        if (library == NULL || strncmp(library, beginning, strlen(beginning)) != 0 || strlen(library) >= bytes)
            continue;
        memcpy(name, library, strlen(library) + 1);
        return true;
    }
    return false;
}
