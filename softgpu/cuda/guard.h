/*
 * guard.h - what catches mistakes with memory: closed pages, strict mode, the handler of faults. The last part of
 * driver.h, which includes it.
 */
#ifndef SOFTGPU_CUDA_GUARD_H
#define SOFTGPU_CUDA_GUARD_H

/* ---- address.c: SOFTGPU_ADDRESSES ---- */

enum address_place {
    ADDRESS_ANY,   /* the host's own */
    ADDRESS_PLAIN, /* of cuMemAlloc */
    ADDRESS_POOL,  /* of pools and address ranges */
};

static inline enum address_place
allocation_place(enum memory_kind kind, const struct pool *pool)
{
    return kind != MEMORY_DEVICE ? ADDRESS_ANY : pool != NULL ? ADDRESS_POOL : ADDRESS_PLAIN;
}

/* Closed pages for so many bytes; MAP_FAILED if there are none. The caller unmaps them. */
void *address_reserve(enum address_place place, size_t bytes);

/* ---- mapping.c ---- */

/* `at_end`: the allocation ends as near before the closed pages as alignment allows, which shows what goes past it. */
bool mapping_make(size_t bytes, enum address_place place, bool at_end, struct mapping *mapping)
    __attribute__((warn_unused_result));

/* The bytes between the end of an allocation and the closed pages are as mapping_make() left them. */
bool mapping_intact(const struct allocation *allocation);

/* SOFTGPU_UNRULY: from here on the calling thread can use device memory, or no longer. The host's threads never can. */
void mapping_open(bool open);

/* Gives the memory back, but keeps its addresses closed for a while. */
void mapping_retire(const struct allocation *allocation);

/*
 * Copies the record of the allocation, freed not long ago, that held `address`. A handler of a fault must not wait for
 * the lock, and may then not learn it.
 */
bool mapping_retired(uintptr_t address, bool may_wait, struct allocation *found);

/* ---- strict.c ---- */

/*
 * Around everything that may touch device memory on behalf of the program, in the thread that does. With SOFTGPU_STRICT
 * operations exclude each other, except those of libraries (`shared`): a collective of one stream may have to wait for
 * one of another.
 */
void strict_begin(bool shared);
void strict_end(bool shared, struct context *context, const char *what);

/* ---- fault.c ---- */

/* Puts the handler of faults in place; a signal that no kernel raised is passed on to what was there before. */
void fault_watch(void);

#endif
