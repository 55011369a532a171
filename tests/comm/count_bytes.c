/*
 * count_bytes.c - what the compiler calls before each access to memory in code that is built with -fsanitize=thread: a
 * part of the kernels that test_bytes counts with, in the sanitizer's place. Accesses outside of the range do not
 * count.
 */
#include "count_bytes.h"

#include <stdint.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* the compiler calls these, and no source */

static struct counted_bytes counted;
static uintptr_t begin, end;

void
count_bytes_begin(uintptr_t from, uintptr_t to)
{
    begin = from;
    end = to;
    counted = (struct counted_bytes){0, 0};
}

struct counted_bytes
count_bytes_end(void)
{
    begin = end = 0;
    return counted;
}

static void
count(uint64_t *bytes, const void *address, uint64_t size)
{
    if ((uintptr_t)address >= begin && (uintptr_t)address < end)
        *bytes += size;
}

/* NOLINTBEGIN(bugprone-reserved-identifier): the compiler names them */
#define ACCESS(name, bytes, size)               \
    void __tsan_##name(const void *address)     \
    {                                           \
        count(&counted.bytes, address, (size)); \
    }
ACCESS(read1, read, 1)
ACCESS(read2, read, 2)
ACCESS(read4, read, 4)
ACCESS(read8, read, 8)
ACCESS(read16, read, 16)
ACCESS(unaligned_read2, read, 2)
ACCESS(unaligned_read4, read, 4)
ACCESS(unaligned_read8, read, 8)
ACCESS(unaligned_read16, read, 16)
ACCESS(write1, written, 1)
ACCESS(write2, written, 2)
ACCESS(write4, written, 4)
ACCESS(write8, written, 8)
ACCESS(write16, written, 16)
ACCESS(unaligned_write2, written, 2)
ACCESS(unaligned_write4, written, 4)
ACCESS(unaligned_write8, written, 8)
ACCESS(unaligned_write16, written, 16)

#define CALL(type, name, parameters, ...) \
    type __tsan_##name parameters         \
    {                                     \
        __VA_ARGS__;                      \
    }
CALL(void, read_range, (const void *address, unsigned long size), count(&counted.read, address, size))
CALL(void, write_range, (const void *address, unsigned long size), count(&counted.written, address, size))
CALL(void, func_entry, (void *caller), (void)caller)
CALL(void, func_exit, (void), (void)0)
CALL(void, init, (void), (void)0)

/* Of results and of the stand-in's own: not counted. */
#define ATOMIC(type, name, parameters, result) CALL(type, name, parameters, (void)order; return result)
ATOMIC(uint8_t, atomic8_load, (const volatile uint8_t *at, int order), __atomic_load_n(at, __ATOMIC_SEQ_CST))
ATOMIC(uint64_t, atomic64_load, (const volatile uint64_t *at, int order), __atomic_load_n(at, __ATOMIC_SEQ_CST))
CALL(void, atomic64_store, (volatile uint64_t * at, uint64_t value, int order), (void)order;
     __atomic_store_n(at, value, __ATOMIC_SEQ_CST))
ATOMIC(uint32_t, atomic32_fetch_add, (volatile uint32_t * at, uint32_t value, int order),
       __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST))
ATOMIC(uint64_t, atomic64_fetch_add, (volatile uint64_t * at, uint64_t value, int order),
       __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST))
#define EXCHANGE(word, name)                                                                       \
    ATOMIC(int, name, (volatile word * at, word * expected, word desired, int order, int failing), \
           ((void)failing, __atomic_compare_exchange_n(at, expected, desired, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)))
EXCHANGE(uint32_t, atomic32_compare_exchange_strong)
EXCHANGE(uint64_t, atomic64_compare_exchange_strong)
EXCHANGE(uint64_t, atomic64_compare_exchange_weak)
/* NOLINTEND(bugprone-reserved-identifier) */
