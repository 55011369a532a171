/*
 * names.h - a set of words, each with a few bits: who is known as what. For softgpu-cc's passes over tokens.
 */
#ifndef SOFTGPU_CC_NAMES_H
#define SOFTGPU_CC_NAMES_H

#include <stddef.h>
#include <stdint.h>

struct name {
    const char *word; /* not NUL-terminated; the caller's, which must outlive the set */
    uint32_t length;
    uint32_t bits;
    uint32_t first; /* the caller's: e.g. 1 + the index of the first function of this name; 0 when new */
};

struct names {
    struct name *slots;
    size_t count, capacity;
};

/* The entry of `word`, added with no bits if it is not there. Valid until the next call. */
struct name *names_add(struct names *names, const char *word, uint32_t length);

/* Its bits, 0 if it is not there. */
uint32_t names_bits(const struct names *names, const char *word, uint32_t length);

/* The entry, or NULL. */
const struct name *names_find(const struct names *names, const char *word, uint32_t length);

void names_free(struct names *names);

#endif
