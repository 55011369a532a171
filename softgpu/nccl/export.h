/*
 * export.h - how the library's functions get their two names: pncclX, which does the work, and ncclX, which a profiler
 * may replace. What of them is seen outside is said by the linker's version script, generated from names.txt.
 */
#ifndef SOFTGPU_NCCL_EXPORT_H
#define SOFTGPU_NCCL_EXPORT_H

#include <nccl.h>

/* Behind the definition of pncclX: ncclX is the same function. */
#define NCCL_EXPORT(name) extern __typeof__(name) name __attribute__((alias("p" #name)))

#endif
