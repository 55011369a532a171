/*
 * copy.h - copies as boxes of bytes: copy.c makes and runs them, copy_batch.c describes more of them. Nothing outside
 * this folder includes it.
 */
#ifndef SOFTGPU_CUDA_COPY_H
#define SOFTGPU_CUDA_COPY_H

#include "driver.h"

enum side { HOST, DEVICE, UNIFIED }; /* what the call declares an address to be */

enum timing { SYNC, ASYNC };

/* When the source may be read: CUmemcpySrcAccessOrder, and what calls without such a choice do. */
enum order {
    ORDER_OF_CALL,     /* pageable memory during the call, all else in stream order */
    ORDER_STREAM,      /* in stream order, pageable memory too */
    ORDER_DURING_CALL, /* now or in stream order, but before the call returns */
    ORDER_ANY,         /* at any time from the call on */
};

struct corner {
    uintptr_t address;
    size_t pitch, slice; /* bytes from row to row, from plane to plane */
    enum side side;
};

struct box {
    struct corner to, from;
    size_t width, height, depth; /* bytes, rows, planes */
};

/* Where a box begins: x bytes, y rows and z planes from an address, which is `host` or `device` by the type. */
CUresult copy_corner(CUmemorytype type, const void *host, CUdeviceptr device, size_t x, size_t y, size_t z,
                     size_t pitch, size_t plane_rows, struct corner *corner_p) __attribute__((warn_unused_result));

/* Whether both sides of a box that is not empty can be reached. */
CUresult copy_check(const struct box *box) __attribute__((warn_unused_result));

/* A copy between pitched memory, for a graph: it reads its source when it runs. */
CUresult copy_command_new(const CUDA_MEMCPY3D *copy, struct command **command_p) __attribute__((warn_unused_result));

/* Submits the copy, and waits for it where CUDA says that the call does. */
CUresult copy_submit(const struct box *box, enum timing timing, enum order order, struct stream *stream)
    __attribute__((warn_unused_result));

#endif
