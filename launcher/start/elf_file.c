/*
 * elf_file.c - see elf_file.h. Formats: System V ABI, chapters 4 and 5; notes: "Note Section" there. libelf would save
 * about 140 of 640 lines here, in elf_parts.c and in the doctor's elf_needs.c, for a library more: it goes by sections,
 * the loader by segments.
 */
#include "launcher/start/elf_file.h"

#include <elf.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
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

/* ---- what it is ---- */

_Static_assert(sizeof(void *) == 8, "the shim is 64 bits wide");

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#else
#error "name this processor's e_machine"
#endif

/* The kernel refuses more program headers than fit in 64 KiB (fs/binfmt_elf.c, load_elf_phdrs); notes and what a
 * program tells its loader are far smaller than that. */
enum { MOST_HEADER_BYTES = 65536, MOST_NOTE_BYTES = 1 << 20, MOST_DYNAMIC_BYTES = 1 << 20 };

/* Type 2 (softgpu/object.h) has the stand-in's folder. A description that is no text says nothing. */
static void
read_softgpu_note(const Elf64_Nhdr *note, const char *description, struct elf_facts *facts)
{
    facts->built_for_softgpu = true;
    if (note->n_type == 2 && note->n_descsz > 0 && note->n_descsz <= sizeof(facts->softgpu_folder) &&
        description[note->n_descsz - 1] == '\0')
        memcpy(facts->softgpu_folder, description, note->n_descsz);
}

static void
read_build_id(const Elf64_Nhdr *note, const unsigned char *description, struct elf_facts *facts)
{
    for (size_t i = 0; i < note->n_descsz && i < ELF_BUILD_ID_BYTES; ++i)
        snprintf(facts->build_id + 2 * i, 3, "%02x", description[i]);
}

/* Looks through the notes of one segment for the stand-in's owner, and for the build-id. */
static void
find_notes(const char *notes, size_t bytes, size_t align, struct elf_facts *facts)
{
    static const char owner[] = ELF_SOFTGPU_OWNER;
    size_t at = 0;
    while (bytes - at >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr note;
        memcpy(&note, notes + at, sizeof(note));
        at += sizeof(note);
        uint64_t name_bytes = ((uint64_t)note.n_namesz + align - 1) / align * align;
        uint64_t description_bytes = ((uint64_t)note.n_descsz + align - 1) / align * align;
        if (name_bytes > bytes - at || note.n_descsz > bytes - at - name_bytes)
            return;
        if (note.n_namesz == sizeof(owner) && memcmp(notes + at, owner, sizeof(owner)) == 0)
            read_softgpu_note(&note, notes + at + name_bytes, facts);
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(notes + at, "GNU", 4) == 0)
            read_build_id(&note, (const unsigned char *)notes + at + name_bytes, facts);
        if (description_bytes > bytes - at - name_bytes)
            return;
        at += name_bytes + description_bytes;
    }
}

static bool
inspect_note(struct elf_source *source, const Elf64_Phdr *segment, struct elf_facts *facts)
{
    if (segment->p_filesz > MOST_NOTE_BYTES)
        return true; /* no note of softgpu-cc looks like this */
    char *notes = elf_source_get(source, segment->p_filesz, segment->p_offset, MOST_NOTE_BYTES);
    if (notes == NULL)
        return false;
    find_notes(notes, segment->p_filesz, segment->p_align == 8 ? 8 : 4, facts);
    free(notes);
    return true;
}

static bool
inspect_interpreter(struct elf_source *source, const Elf64_Phdr *segment, struct elf_facts *facts)
{
    if (segment->p_filesz < 2 || segment->p_filesz > sizeof(facts->interpreter))
        return false;
    if (!elf_source_read(source, facts->interpreter, segment->p_filesz, segment->p_offset))
        return false;
    facts->kind = ELF_KIND_DYNAMIC;
    return facts->interpreter[0] != '\0' && facts->interpreter[segment->p_filesz - 1] == '\0';
}

static bool
inspect_segments(struct elf_source *source, const Elf64_Phdr *segments, size_t count, struct elf_facts *facts)
{
    for (size_t i = 0; i < count; ++i) {
        bool ok = true;
        if (segments[i].p_type == PT_INTERP)
            ok = inspect_interpreter(source, &segments[i], facts);
        else if (segments[i].p_type == PT_NOTE)
            ok = inspect_note(source, &segments[i], facts);
        if (!ok)
            return false;
    }
    return true;
}

/* Linkers mark a position independent program by DF_1_PIE, also a static one; without it, and without a loader's name,
 * such a file is a library. */
static bool
is_library(struct elf_source *source, const Elf64_Phdr *segments, size_t count)
{
    const Elf64_Phdr *segment = segments, *end = segments + count;
    while (segment < end && segment->p_type != PT_DYNAMIC)
        ++segment;
    if (segment == end)
        return false;
    Elf64_Dyn *entries = (Elf64_Dyn *)elf_source_get(source, segment->p_filesz, segment->p_offset, MOST_DYNAMIC_BYTES);
    if (entries == NULL)
        return false;
    bool is_program = false;
    for (size_t i = 0; i < segment->p_filesz / sizeof(*entries) && entries[i].d_tag != DT_NULL; ++i)
        is_program = is_program || (entries[i].d_tag == DT_FLAGS_1 && (entries[i].d_un.d_val & DF_1_PIE) != 0);
    free(entries);
    return !is_program;
}

/* Everything behind the file header. */
static void
inspect_program(struct elf_source *source, const Elf64_Ehdr *header, struct elf_facts *facts)
{
    size_t bytes = (size_t)header->e_phnum * sizeof(Elf64_Phdr);
    facts->kind = ELF_KIND_DAMAGED;
    if (header->e_phentsize != sizeof(Elf64_Phdr) || bytes == 0)
        return;
    Elf64_Phdr *segments = (Elf64_Phdr *)elf_source_get(source, bytes, header->e_phoff, MOST_HEADER_BYTES);
    if (segments == NULL)
        return;
    facts->kind = ELF_KIND_STATIC;
    if (!inspect_segments(source, segments, header->e_phnum, facts))
        facts->kind = ELF_KIND_DAMAGED;
    else if (facts->kind == ELF_KIND_STATIC && header->e_type == ET_DYN &&
             is_library(source, segments, header->e_phnum))
        facts->kind = ELF_KIND_LIBRARY;
    free(segments);
}

int
elf_file_inspect_source(struct elf_source *source, struct elf_facts *facts_p)
{
    struct elf_facts facts = {.kind = ELF_KIND_NOT_ELF};
    Elf64_Ehdr header;
    if (!elf_source_read(source, header.e_ident, EI_NIDENT, 0)) {
        /* too short to be anything */
    } else if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
        /* the kernel looks at these four bytes as well */
    } else if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
        facts.kind = ELF_KIND_OTHER_MACHINE;
    } else if (!elf_source_read(source, &header, sizeof(header), 0)) {
        facts.kind = ELF_KIND_DAMAGED;
    } else if (header.e_machine != OUR_MACHINE) {
        facts.kind = ELF_KIND_OTHER_MACHINE;
    } else if (header.e_type != ET_EXEC && header.e_type != ET_DYN) {
        facts.kind = ELF_KIND_NOT_LINKED;
    } else {
        inspect_program(source, &header, &facts);
    }
    if (source->error != 0)
        return source->error;
    *facts_p = facts;
    return 0;
}

int
elf_file_inspect(int fd, struct elf_facts *facts)
{
    struct elf_source source;
    int error = elf_source_open(fd, &source);
    return error != 0 ? error : elf_file_inspect_source(&source, facts);
}
