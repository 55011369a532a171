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

void
__tsan_read_range(const void *address, unsigned long size)
{
    count(&counted.read, address, size);
}

void
__tsan_write_range(const void *address, unsigned long size)
{
    count(&counted.written, address, size);
}

void
__tsan_func_entry(void *caller)
{
    (void)caller;
}

void
__tsan_func_exit(void)
{
}

void
__tsan_init(void)
{
}

/* Of results and of the stand-in's own: not counted. */
uint8_t
__tsan_atomic8_load(const volatile uint8_t *at, int order)
{
    (void)order;
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}

uint64_t
__tsan_atomic64_load(const volatile uint64_t *at, int order)
{
    (void)order;
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}

void
__tsan_atomic64_store(volatile uint64_t *at, uint64_t value, int order)
{
    (void)order;
    __atomic_store_n(at, value, __ATOMIC_SEQ_CST);
}

uint32_t
__tsan_atomic32_fetch_add(volatile uint32_t *at, uint32_t value, int order)
{
    (void)order;
    return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);
}

uint64_t
__tsan_atomic64_fetch_add(volatile uint64_t *at, uint64_t value, int order)
{
    (void)order;
    return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);
}

int
__tsan_atomic32_compare_exchange_strong(volatile uint32_t *at, uint32_t *expected, uint32_t desired, int order,
                                        int failing)
{
    (void)order, (void)failing;
    return __atomic_compare_exchange_n(at, expected, desired, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

int
__tsan_atomic64_compare_exchange_strong(volatile uint64_t *at, uint64_t *expected, uint64_t desired, int order,
                                        int failing)
{
    (void)order, (void)failing;
    return __atomic_compare_exchange_n(at, expected, desired, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

int
__tsan_atomic64_compare_exchange_weak(volatile uint64_t *at, uint64_t *expected, uint64_t desired, int order,
                                      int failing)
{
    return __tsan_atomic64_compare_exchange_strong(at, expected, desired, order, failing);
}
/* NOLINTEND(bugprone-reserved-identifier) */
