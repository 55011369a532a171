/*
 * table.h - the table of all that the driver knows of memory, for memory.c, which owns it, and describe.c, which reads
 * it.
 */
#ifndef SOFTGPU_CUDA_TABLE_H
#define SOFTGPU_CUDA_TABLE_H

#include "driver.h"

extern pthread_rwlock_t table_lock; /* guards all below */
extern struct allocation **table;   /* by ascending base, never overlapping */
extern size_t table_count;

/* The place of the first allocation that begins after `address`. */
size_t table_place_after(uintptr_t address);

#endif
