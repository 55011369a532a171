/*
 * symbols.c - see symbols.h. The format: elf(5).
 */
#include "launcher/report/symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROGRAM_HEADERS_AT_MOST = 256, SECTIONS_AT_MOST = 65536, SYMBOLS_AT_ONCE = 2048 };

static bool
read_at(int fd, void *to, size_t bytes, uint64_t offset)
{
    return offset <= INT64_MAX && pread(fd, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

static bool
read_header(int fd, Elf64_Ehdr *header)
{
    return read_at(fd, header, sizeof(*header), 0) && memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_phentsize == sizeof(Elf64_Phdr);
}

static bool
find_address(int fd, const Elf64_Ehdr *header, uint64_t file_offset, uint64_t *address)
{
    for (unsigned i = 0; i < header->e_phnum && i < PROGRAM_HEADERS_AT_MOST; ++i) {
        Elf64_Phdr segment;
        if (!read_at(fd, &segment, sizeof(segment), header->e_phoff + i * sizeof(segment)))
            return false;
        if (segment.p_type != PT_LOAD || file_offset < segment.p_offset ||
            file_offset - segment.p_offset >= segment.p_filesz)
            continue;
        *address = file_offset - segment.p_offset + segment.p_vaddr;
        return true;
    }
    return false;
}

/* Among the symbols of one section: the function that `address` is in. */
static bool
find_in_section(int fd, const Elf64_Shdr *section, uint64_t address, Elf64_Sym *found)
{
    Elf64_Sym *symbols = malloc(SYMBOLS_AT_ONCE * sizeof(*symbols));
    uint64_t left = section->sh_size / sizeof(*symbols), at = section->sh_offset;
    bool any = false;
    while (symbols != NULL && left > 0 && !any) {
        size_t count = left < SYMBOLS_AT_ONCE ? (size_t)left : SYMBOLS_AT_ONCE;
        if (!read_at(fd, symbols, count * sizeof(*symbols), at))
            break;
        for (size_t i = 0; i < count && !any; ++i) {
            unsigned type = ELF64_ST_TYPE(symbols[i].st_info);
            any = (type == STT_FUNC || type == STT_GNU_IFUNC) && symbols[i].st_shndx != SHN_UNDEF &&
                  address >= symbols[i].st_value && address - symbols[i].st_value < symbols[i].st_size;
            if (any)
                *found = symbols[i];
        }
        left -= count;
        at += count * sizeof(*symbols);
    }
    free(symbols);
    return any;
}

static void
read_name(int fd, const Elf64_Shdr *strings, const Elf64_Sym *found, struct symbol *symbol)
{
    char name[sizeof(symbol->name)] = "";
    if (found->st_name >= strings->sh_size || strings->sh_offset + found->st_name > INT64_MAX)
        return;
    if (pread(fd, name, sizeof(name) - 1, (off_t)(strings->sh_offset + found->st_name)) <= 0)
        return;
    for (char *at = name; *at != '\0'; ++at) {
        if (*at < ' ' || *at > '~')
            *at = '?';
    }
    memcpy(symbol->name, name, sizeof(name));
}

/* In the full table if the file has one, else in that of the dynamic linker. */
static void
find_name(int fd, const Elf64_Ehdr *header, struct symbol *symbol)
{
    static const Elf64_Word types[] = {SHT_SYMTAB, SHT_DYNSYM};
    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]) && symbol->name[0] == '\0'; ++t) {
        for (unsigned i = 0; i < header->e_shnum && i < SECTIONS_AT_MOST; ++i) {
            Elf64_Shdr section, strings;
            Elf64_Sym found;
            if (header->e_shentsize != sizeof(section) ||
                !read_at(fd, &section, sizeof(section), header->e_shoff + i * sizeof(section)))
                return;
            if (section.sh_type != types[t] || section.sh_link >= header->e_shnum ||
                !read_at(fd, &strings, sizeof(strings), header->e_shoff + section.sh_link * sizeof(strings)) ||
                !find_in_section(fd, &section, symbol->address, &found))
                continue;
            symbol->offset = symbol->address - found.st_value;
            read_name(fd, &strings, &found, symbol);
        }
    }
}

bool
symbols_find(const char *path, uint64_t file_offset, struct symbol *symbol_p)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* whatever it has become */
    if (fd < 0)
        return false;
    Elf64_Ehdr header;
    struct symbol symbol = {0};
    bool found = read_header(fd, &header) && find_address(fd, &header, file_offset, &symbol.address);
    if (found) {
        find_name(fd, &header, &symbol);
        *symbol_p = symbol;
    }
    close(fd);
    return found;
}
