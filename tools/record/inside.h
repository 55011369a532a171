/*
 * inside.h - is a call made by a cudart that the program, or a library of its own, has inside? nvcc links the static
 * one unless told otherwise. Its internal functions are local symbols `libcudart_static_<hex>`, and lie in one piece
 * with its public ones.
 */
#ifndef DDPRUN_TOOLS_RECORD_INSIDE_H
#define DDPRUN_TOOLS_RECORD_INSIDE_H

#include "tools/common/direct.h"
#include "tools/common/each.h"

#include <elf.h>
#include <link.h>

struct code_range {
    uintptr_t from, to; /* [from, to), as the file has addresses; to 0: no cudart, or no symbols that show one */
};

/*
 * The last piece of code in which every function is cudart's. The linker puts functions that seldom run before all
 * others: those of cudart lie apart, with the program's after them. A program may have a function cudaCheck(), so the
 * piece begins at an internal function of cudart.
 */
static inline struct code_range
cudart_among(const Elf64_Sym *symbols, size_t count, const char *names, size_t bytes)
{
    struct code_range range = {UINTPTR_MAX, 0};
    uintptr_t others_end = 0;
    for (int pass = 0; pass < 3; ++pass) {
        FOR_EACH(symbol, symbols, count) {
            const char *name = names + (symbol->st_name < bytes ? symbol->st_name : 0);
            uintptr_t begin = symbol->st_value, end = begin + symbol->st_size;
            bool is_internal = strncmp(name, "libcudart_static_", 17) == 0;
            bool is_other = !is_internal && strncmp(name, "cuda", 4) != 0 && strncmp(name, "__cuda", 6) != 0;
            if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_shndx == SHN_UNDEF)
                continue;
            if (pass == 0 && is_internal && end > range.to)
                range.to = end;
            if (pass == 1 && is_other && begin < range.to && end > others_end)
                others_end = end;
            if (pass == 2 && is_internal && begin >= others_end && begin < range.from)
                range.from = begin;
        }
    }
    return range;
}

/* So many bytes of a file from `at` on, malloc'ed, and a zero; NULL: they are not there. */
static inline void *
part_of_file(int fd, uint64_t at, uint64_t bytes)
{
    OWNED char *part = bytes < UINT64_C(1) << 40 ? calloc(1, bytes + 1) : NULL;
    return part != NULL && direct_read(fd, part, bytes, (off_t)at) ? HANDED_ON(part) : NULL;
}

static inline struct code_range
cudart_of_file(const char *path)
{
    Elf64_Ehdr header = {.e_shnum = 0};
    OWNED_FD int fd = open_direct(path, O_RDONLY | O_CLOEXEC, 0);
    bool is_read = fd >= 0 && direct_read(fd, &header, sizeof(header), 0);
    OWNED Elf64_Shdr *all = is_read ? part_of_file(fd, header.e_shoff, header.e_shnum * sizeof(*all)) : NULL;
    const Elf64_Shdr *table = all != NULL ? FIND(it, all, header.e_shnum, it->sh_type == SHT_SYMTAB) : NULL;
    const Elf64_Shdr *texts = table != NULL && table->sh_link < header.e_shnum ? &all[table->sh_link] : NULL;
    OWNED Elf64_Sym *symbols = texts != NULL ? part_of_file(fd, table->sh_offset, table->sh_size) : NULL;
    OWNED char *names = texts != NULL ? part_of_file(fd, texts->sh_offset, texts->sh_size) : NULL;
    return symbols != NULL && names != NULL
               ? cudart_among(symbols, table->sh_size / sizeof(*symbols), names, texts->sh_size)
               : (struct code_range){0, 0};
}

/* Whether the code at `address` of this object is a cudart's. One thread at a time. */
static inline bool
cudart_holds(const struct link_map *object, const void *address)
{
    enum { KNOWN = 64 };
    static struct {
        const struct link_map *object;
        struct code_range cudart;
    } known[KNOWN];
    static size_t count;
    size_t i = 0;
    while (i < KNOWN && known[i].object != object)
        ++i;
    if (i == KNOWN) {
        i = count++ % KNOWN;
        known[i].object = object;
        known[i].cudart = cudart_of_file(object->l_name[0] != '\0' ? object->l_name : "/proc/self/exe");
    }
    uintptr_t at = (uintptr_t)address - object->l_addr;
    return at >= known[i].cudart.from && at < known[i].cudart.to;
}

#endif
