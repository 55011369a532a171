/*
 * elf_file.c - see elf_file.h. Formats: System V ABI, chapters 4 and 5; notes: "Note Section" there.
 */
#include "launcher/elf_file.h"

#include <elf.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(sizeof(void *) == 8, "the shim is 64 bits wide");

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#else
#error "name this processor's e_machine"
#endif

/* The kernel refuses more program headers than fit in 64 KiB (fs/binfmt_elf.c, load_elf_phdrs); notes are far smaller
 * than that. */
enum { MOST_HEADER_BYTES = 65536, MOST_NOTE_BYTES = 1 << 20 };

/* Everything that is read passes here: no byte outside of the file, and no short read. */
static bool
read_at(int fd, uint64_t file_bytes, void *to, uint64_t bytes, uint64_t offset, int *error)
{
    if (offset > file_bytes || bytes > file_bytes - offset)
        return false;
    ssize_t got = pread(fd, to, bytes, (off_t)offset);
    if (got < 0)
        *error = errno;
    return got >= 0 && (uint64_t)got == bytes;
}

/* Looks through the notes of one segment for the stand-in's owner. */
static bool
has_softgpu_note(const unsigned char *notes, size_t bytes, size_t align)
{
    static const char owner[] = ELF_SOFTGPU_OWNER;
    size_t at = 0;
    while (bytes - at >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr note;
        memcpy(&note, notes + at, sizeof(note));
        at += sizeof(note);
        uint64_t name_bytes = ((uint64_t)note.n_namesz + align - 1) / align * align;
        uint64_t description_bytes = ((uint64_t)note.n_descsz + align - 1) / align * align;
        if (note.n_namesz > bytes - at)
            return false;
        if (note.n_namesz == sizeof(owner) && memcmp(notes + at, owner, sizeof(owner)) == 0)
            return true;
        if (name_bytes > bytes - at || description_bytes > bytes - at - name_bytes)
            return false;
        at += name_bytes + description_bytes;
    }
    return false;
}

static bool
inspect_note(int fd, uint64_t file_bytes, const Elf64_Phdr *segment, struct elf_facts *facts, int *error)
{
    if (segment->p_filesz > MOST_NOTE_BYTES)
        return true; /* no note of softgpu-cc looks like this */
    unsigned char *notes = malloc(segment->p_filesz + 1);
    if (notes == NULL) {
        *error = ENOMEM;
        return false;
    }
    bool ok = read_at(fd, file_bytes, notes, segment->p_filesz, segment->p_offset, error);
    if (ok && has_softgpu_note(notes, segment->p_filesz, segment->p_align == 8 ? 8 : 4))
        facts->built_for_softgpu = true;
    free(notes);
    return ok;
}

static bool
inspect_interpreter(int fd, uint64_t file_bytes, const Elf64_Phdr *segment, struct elf_facts *facts, int *error)
{
    if (segment->p_filesz < 2 || segment->p_filesz > sizeof(facts->interpreter))
        return false;
    if (!read_at(fd, file_bytes, facts->interpreter, segment->p_filesz, segment->p_offset, error))
        return false;
    facts->kind = ELF_KIND_DYNAMIC;
    return facts->interpreter[segment->p_filesz - 1] == '\0';
}

static bool
inspect_segments(int fd, uint64_t file_bytes, const Elf64_Phdr *segments, size_t count, struct elf_facts *facts,
                 int *error)
{
    for (size_t i = 0; i < count; ++i) {
        bool ok = true;
        if (segments[i].p_type == PT_INTERP)
            ok = inspect_interpreter(fd, file_bytes, &segments[i], facts, error);
        else if (segments[i].p_type == PT_NOTE)
            ok = inspect_note(fd, file_bytes, &segments[i], facts, error);
        if (!ok)
            return false;
    }
    return true;
}

/* Everything behind the file header. */
static void
inspect_program(int fd, uint64_t file_bytes, const Elf64_Ehdr *header, struct elf_facts *facts, int *error)
{
    size_t bytes = (size_t)header->e_phnum * sizeof(Elf64_Phdr);
    facts->kind = ELF_KIND_DAMAGED;
    if (header->e_phentsize != sizeof(Elf64_Phdr) || bytes == 0 || bytes > MOST_HEADER_BYTES)
        return;
    Elf64_Phdr *segments = malloc(bytes);
    if (segments == NULL) {
        *error = ENOMEM;
        return;
    }
    if (read_at(fd, file_bytes, segments, bytes, header->e_phoff, error)) {
        facts->kind = ELF_KIND_STATIC;
        if (!inspect_segments(fd, file_bytes, segments, header->e_phnum, facts, error))
            facts->kind = ELF_KIND_DAMAGED;
    }
    free(segments);
}

int
elf_file_inspect(int fd, struct elf_facts *facts_p)
{
    struct elf_facts facts = {.kind = ELF_KIND_NOT_ELF};
    struct stat file;
    if (fstat(fd, &file) != 0)
        return errno;

    int error = 0;
    uint64_t file_bytes = (uint64_t)file.st_size;
    Elf64_Ehdr header;
    if (!read_at(fd, file_bytes, header.e_ident, EI_NIDENT, 0, &error)) {
        /* too short to be anything */
    } else if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
        /* the kernel looks at these four bytes as well */
    } else if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
        facts.kind = ELF_KIND_OTHER_MACHINE;
    } else if (!read_at(fd, file_bytes, &header, sizeof(header), 0, &error)) {
        facts.kind = ELF_KIND_DAMAGED;
    } else if (header.e_machine != OUR_MACHINE) {
        facts.kind = ELF_KIND_OTHER_MACHINE;
    } else if (header.e_type != ET_EXEC && header.e_type != ET_DYN) {
        facts.kind = ELF_KIND_NOT_LINKED;
    } else {
        inspect_program(fd, file_bytes, &header, &facts, &error);
    }
    if (error != 0)
        return error;
    *facts_p = facts;
    return 0;
}
