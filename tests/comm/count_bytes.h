/*
 * count_bytes.h - the bytes that kernels read and write in a range of memory: exported by the kernels that test_bytes
 * opens (count_bytes.c).
 */
#ifndef DDPRUN_TESTS_COMM_COUNT_BYTES_H
#define DDPRUN_TESTS_COMM_COUNT_BYTES_H

#include <stdint.h>

struct counted_bytes {
    uint64_t read, written;
};

void count_bytes_begin(uintptr_t from, uintptr_t to);
struct counted_bytes count_bytes_end(void);

#endif
