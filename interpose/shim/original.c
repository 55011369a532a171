/*
 * original.c - libc's own dlsym and dlvsym, which this library overrides.
 *
 * They cannot be asked for by name: every way of asking is one of the two. So the symbol table of the loaded libc (of
 * libdl before glibc 2.34) is read, and of the versions there the default one is taken, which is the newest:
 * GLIBC_2.34, else GLIBC_2.17 on aarch64 and GLIBC_2.2.5 on x86-64. (The names that only glibc itself may use have come
 * and gone.) Called by gate.c before anything is looked up; allocates nothing.
 */
#include "interpose/shim/shim.h"

#include "base/message.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

/* Jumped to by our dlsym and dlvsym. */
__attribute__((visibility("hidden"))) void *gate_real_dlsym, *gate_real_dlvsym;

enum { VERSION_HIDDEN = 0x8000 }; /* of an ElfW(Half) in DT_VERSYM: not the default version */

struct symbols {
    const ElfW(Sym) * table;
    const char *names;
    const ElfW(Half) * versions;
    const uint32_t *hash; /* DT_GNU_HASH: bucket count, first hashed symbol, bloom words, bloom shift, bloom, buckets */
};

static const void *
address_of(const struct dl_phdr_info *object, ElfW(Addr) value)
{
    /* glibc has relocated these entries in memory, where the segment can be written. */
    return (const void *)(value < object->dlpi_addr ? object->dlpi_addr + value : value);
}

static bool
read_dynamic(const struct dl_phdr_info *object, struct symbols *symbols)
{
    const ElfW(Dyn) *entry = NULL;
    for (int i = 0; i < object->dlpi_phnum; ++i) {
        if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
            entry = (const ElfW(Dyn) *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
    }
    for (; entry != NULL && entry->d_tag != DT_NULL; ++entry) {
        switch (entry->d_tag) {
        case DT_SYMTAB:
            symbols->table = address_of(object, entry->d_un.d_ptr);
            break;
        case DT_STRTAB:
            symbols->names = address_of(object, entry->d_un.d_ptr);
            break;
        case DT_VERSYM:
            symbols->versions = address_of(object, entry->d_un.d_ptr);
            break;
        case DT_GNU_HASH:
            symbols->hash = address_of(object, entry->d_un.d_ptr);
            break;
        default:
            break;
        }
    }
    return symbols->table != NULL && symbols->names != NULL && symbols->versions != NULL && symbols->hash != NULL;
}

static uint32_t
gnu_hash(const char *name)
{
    uint32_t hash = 5381;
    for (; *name != '\0'; ++name)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

/* The default version of the function `name`; NULL if the object does not define it. */
static void *
find_in(const struct dl_phdr_info *object, const struct symbols *symbols, const char *name)
{
    uint32_t bucket_count = symbols->hash[0], first = symbols->hash[1], bloom_words = symbols->hash[2];
    const uint32_t *buckets = symbols->hash + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chains = buckets + bucket_count;
    uint32_t hash = gnu_hash(name), at = bucket_count > 0 ? buckets[hash % bucket_count] : 0;
    if (at < first)
        return NULL;
    for (;; ++at) {
        const ElfW(Sym) *symbol = &symbols->table[at];
        if (((chains[at - first] ^ hash) | 1) == 1 && strcmp(symbols->names + symbol->st_name, name) == 0 &&
            symbol->st_shndx != SHN_UNDEF && (symbols->versions[at] & VERSION_HIDDEN) == 0)
            return (void *)(object->dlpi_addr + symbol->st_value);
        if (chains[at - first] & 1)
            return NULL; /* the end of the chain */
    }
}

static int
look_into(struct dl_phdr_info *object, size_t size, void *data)
{
    (void)size;
    (void)data;
    const char *slash = strrchr(object->dlpi_name, '/');
    const char *name = slash != NULL ? slash + 1 : object->dlpi_name;
    if (strcmp(name, "libc.so.6") != 0 && strcmp(name, "libdl.so.2") != 0)
        return 0;
    struct symbols symbols = {NULL, NULL, NULL, NULL};
    if (!read_dynamic(object, &symbols))
        return 0;
    void *dlsym_found = find_in(object, &symbols, "dlsym"), *dlvsym_found = find_in(object, &symbols, "dlvsym");
    if (dlsym_found == NULL || dlvsym_found == NULL)
        return 0;
    gate_real_dlvsym = dlvsym_found;
    gate_real_dlsym = dlsym_found; /* last: it says that both are known */
    return 1;
}

void
original_find(void)
{
    if (gate_real_dlsym != NULL || dl_iterate_phdr(look_into, NULL) != 0)
        return;
    message_line("this process has no dlsym in libc.so.6 or libdl.so.2 (a C library other than glibc?); run it without "
                 "ddprun");
    _exit(DDPRUN_EXIT_FAILURE);
}
