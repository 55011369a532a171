/*
 * original.c - libc's own dlsym and dlvsym, which this library overrides.
 *
 * They cannot be asked for by name: every way of asking is one of the two. So the symbol table of the loaded libc (of
 * libdl before glibc 2.34) is read, and of the versions there the default one is taken, which is the newest:
 * GLIBC_2.34, else GLIBC_2.17 on aarch64 and GLIBC_2.2.5 on x86-64. (The names that only glibc itself may use have come
 * and gone.)
 *
 * Called by gate.c before anything is looked up, which may be by a sanitizer's runtime that looks for what it
 * intercepts: so nothing here allocates or calls libc, not even to compare strings.
 */
#include "interpose/shim/shim.h"

#include "base/message.h"

#include <elf.h>
#include <link.h>
#include <unistd.h>

/* Jumped to by our dlsym and dlvsym. */
__attribute__((visibility("hidden"))) void *gate_real_dlsym, *gate_real_dlvsym;

typedef void *(*dlsym_fn)(void *, const char *);

enum { VERSION_HIDDEN = 0x8000 }; /* of an ElfW(Half) in DT_VERSYM: not the default version */

struct symbols {
    const ElfW(Sym) * table;
    const char *names;
    const ElfW(Half) * versions;
    const uint32_t *hash; /* DT_GNU_HASH: bucket count, first hashed symbol, bloom words, bloom shift, bloom, buckets */
};

static bool
is_equal(const char *a, const char *b)
{
    for (; *a == *b; ++a, ++b) {
        if (*a == '\0')
            return true;
    }
    return false;
}

static const char *
last_part(const char *path)
{
    const char *part = path;
    for (; *path != '\0'; ++path) {
        if (*path == '/')
            part = path + 1;
    }
    return part;
}

static const void *
address_of(const struct link_map *object, ElfW(Addr) value)
{
    /* glibc has relocated these entries in memory, where the segment can be written. */
    return (const void *)(value < object->l_addr ? object->l_addr + value : value);
}

static bool
read_dynamic(const struct link_map *object, struct symbols *symbols)
{
    for (const ElfW(Dyn) *entry = object->l_ld; entry != NULL && entry->d_tag != DT_NULL; ++entry) {
        const void *address = address_of(object, entry->d_un.d_ptr);
        if (entry->d_tag == DT_SYMTAB)
            symbols->table = address;
        else if (entry->d_tag == DT_STRTAB)
            symbols->names = address;
        else if (entry->d_tag == DT_VERSYM)
            symbols->versions = address;
        else if (entry->d_tag == DT_GNU_HASH)
            symbols->hash = address;
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
find_in(const struct link_map *object, const struct symbols *symbols, const char *name)
{
    uint32_t bucket_count = symbols->hash[0], first = symbols->hash[1], bloom_words = symbols->hash[2];
    const uint32_t *buckets = symbols->hash + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chains = buckets + bucket_count;
    uint32_t hash = gnu_hash(name), at = bucket_count > 0 ? buckets[hash % bucket_count] : 0;
    if (at < first)
        return NULL;
    for (;; ++at) {
        const ElfW(Sym) *symbol = &symbols->table[at];
        if (((chains[at - first] ^ hash) | 1) == 1 && is_equal(symbols->names + symbol->st_name, name) &&
            symbol->st_shndx != SHN_UNDEF && (symbols->versions[at] & VERSION_HIDDEN) == 0)
            return (void *)(object->l_addr + symbol->st_value);
        if (chains[at - first] & 1)
            return NULL; /* the end of the chain */
    }
}

/* Whether this is the library that has them; then they are known. */
static bool
look_into(const struct link_map *object)
{
    struct symbols symbols = {NULL, NULL, NULL, NULL};
    const char *name = last_part(object->l_name);
    if ((!is_equal(name, "libc.so.6") && !is_equal(name, "libdl.so.2")) || !read_dynamic(object, &symbols))
        return false;
    void *dlsym_found = find_in(object, &symbols, "dlsym"), *dlvsym_found = find_in(object, &symbols, "dlvsym");
    if (dlsym_found == NULL || dlvsym_found == NULL)
        return false;
    gate_real_dlvsym = dlvsym_found;
    gate_real_dlsym = dlsym_found; /* last: it says that both are known */
    return true;
}

void
original_find(void)
{
    if (gate_real_dlsym != NULL)
        return;
    /* The loader's list, in which libraries only ever come after libc. */
    for (const struct link_map *object = _r_debug.r_map; object != NULL; object = object->l_next) {
        if (look_into(object))
            return;
    }
    message_line("this process has no dlsym in libc.so.6 or libdl.so.2 (a C library other than glibc?); run it without "
                 "ddprun");
    _exit(DDPRUN_EXIT_FAILURE);
}

void *
shim_real_dlsym(void *handle, const char *name)
{
    original_find();
    return ((dlsym_fn)gate_real_dlsym)(handle, name);
}
