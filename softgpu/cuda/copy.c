/*
 * copy.c - copies of every shape, between any memory, with CUDA's rules of who waits.
 *
 * All copies are boxes: a 1D copy is a box of one row. Which copies return before they are done follows "API
 * synchronization behavior" of the CUDA manuals:
 *
 *   Synchronous ones wait, except from device to device. From pageable memory of up to 64 KiB CUDA promises only that
 *   the source was read; that freedom is used under SOFTGPU_CHAOS, where it shows programs that rely on more.
 *
 *   Asynchronous ones wait if the destination is pageable, or if both sides are host memory. A pageable source is
 *   copied aside at the call, so the program may overwrite it at once.
 *
 * Both sides must lie within one allocation each; what the driver does not know is pageable host memory.
 */
#include "copy.h"

#include <stdlib.h>
#include <string.h>

enum { EARLY_RETURN_BYTES = 64 << 10, SHORT_BYTES = 64 << 10 };

/* What the driver knows of one side. */
enum place { PAGEABLE, PAGE_LOCKED, ON_DEVICE };

struct copy_command {
    struct command command;
    struct box box;
    void *staging; /* holds the source, packed; NULL if it is read in its place */
};

static void
copy_rows(const struct box *box)
{
    for (size_t z = 0; z < box->depth; ++z) {
        for (size_t y = 0; y < box->height; ++y) {
            memmove((char *)box->to.address + z * box->to.slice + y * box->to.pitch,
                    (const char *)box->from.address + z * box->from.slice + y * box->from.pitch, box->width);
        }
    }
}

static void
run_copy(struct command *command, struct stream *stream)
{
    struct copy_command *copy = (struct copy_command *)command;
    if (atomic_load(&stream->context->failure) == CUDA_SUCCESS) {
        stream_spend(driver.copy_ns);
        strict_begin(false);
        copy_rows(&copy->box);
        strict_end(false, stream->context, "a copy");
    }
}

static void
end_copy(struct command *command)
{
    free(((struct copy_command *)command)->staging);
}

/* ---- looking at the two sides ---- */

/* From the first byte to the last; false if that is more than addresses can tell. */
static bool
span_bytes(const struct corner *corner, const struct box *box, size_t *bytes_p)
{
    size_t rows, planes;
    return !__builtin_mul_overflow(box->height - 1, corner->pitch, &rows) &&
           !__builtin_mul_overflow(box->depth - 1, corner->slice, &planes) &&
           !__builtin_add_overflow(rows, planes, &rows) && !__builtin_add_overflow(rows, box->width, bytes_p) &&
           *bytes_p <= UINTPTR_MAX - corner->address;
}

static CUresult
find_place(const struct corner *corner, const struct box *box, enum place *place_p)
{
    size_t bytes;
    REQUIRE(corner->address != 0 && span_bytes(corner, box, &bytes));
    REQUIRE((box->height <= 1 || corner->pitch >= box->width) &&
            (box->depth <= 1 || corner->slice >= box->height * corner->pitch));
    struct allocation found;
    if (!memory_find(corner->address, &found)) {
        if (mapping_retired(corner->address, true, &found)) {
            char text[256] = "in memory that has been freed";
            (void)memory_describe(corner->address, text, sizeof text);
            say("a copy uses %#lx, %s", (unsigned long)corner->address, text);
            return CUDA_ERROR_INVALID_VALUE;
        }
        *place_p = PAGEABLE;
        return corner->side == DEVICE ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    }
    REQUIRE(!found.freeing && bytes <= memory_reach(corner->address));
    bool host = found.kind == MEMORY_HOST || found.kind == MEMORY_REGISTERED;
    REQUIRE(corner->side != HOST || host || found.kind == MEMORY_MANAGED);
    *place_p = host ? PAGE_LOCKED : ON_DEVICE;
    return CUDA_SUCCESS;
}

static bool
caller_waits(enum timing timing, enum place to, enum place from, size_t bytes)
{
    bool between_hosts = to != ON_DEVICE && from != ON_DEVICE;
    if (timing == SYNC) {
        bool early = driver.chaos && from == PAGEABLE && to == ON_DEVICE && bytes <= EARLY_RETURN_BYTES;
        return !early && !(to == ON_DEVICE && from == ON_DEVICE);
    }
    return to == PAGEABLE || between_hosts || (from == PAGEABLE && bytes > STAGING_LIMIT);
}

/* Copies the source aside, row after row. */
static CUresult
stage(struct copy_command *copy)
{
    const struct box *box = &copy->box;
    copy->staging = malloc(box->width * box->height * box->depth);
    REQUIRE_ELSE(copy->staging != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    struct box aside = *box;
    aside.to = (struct corner){(uintptr_t)copy->staging, box->width, box->width * box->height, HOST};
    copy_rows(&aside);
    copy->box.from = aside.to;
    return CUDA_SUCCESS;
}

static CUresult
find_places(const struct box *box, enum place *to_p, enum place *from_p)
{
    CUresult result = find_place(&box->to, box, to_p);
    return result == CUDA_SUCCESS ? find_place(&box->from, box, from_p) : result;
}

CUresult
copy_check(const struct box *box)
{
    enum place to, from;
    return find_places(box, &to, &from);
}

/* Whether the source is copied aside at the call. What captures take is read when the graph runs. */
static bool
is_staged(enum order order, enum place from, bool wait, const struct stream *stream)
{
    if (wait || capture_is_on((struct stream *)stream)) {
        return false;
    }
    switch (order) {
    case ORDER_OF_CALL:
        return from == PAGEABLE;
    case ORDER_STREAM:
        return false;
    case ORDER_DURING_CALL:
        return from != ON_DEVICE;
    case ORDER_ANY:
        return from != ON_DEVICE && driver.chaos; /* so it shows who changes the source before the call */
    }
    return false;
}

CUresult
copy_submit(const struct box *box, enum timing timing, enum order order, struct stream *stream)
{
    if (box->width == 0 || box->height == 0 || box->depth == 0) {
        return CUDA_SUCCESS;
    }
    enum place to, from;
    TRY(find_places(box, &to, &from));
    struct copy_command *copy = command_new(sizeof *copy, run_copy);
    REQUIRE_ELSE(copy != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    copy->command.end = end_copy;
    copy->command.node_type = CU_GRAPH_NODE_TYPE_MEMCPY;
    copy->box = *box;
    copy->staging = NULL;
    bool wait = caller_waits(timing, to, from, box->width * box->height * box->depth) ||
                (order == ORDER_DURING_CALL && from == ON_DEVICE);
    if (is_staged(order, from, wait, stream)) {
        CUresult result = stage(copy);
        if (result != CUDA_SUCCESS) {
            command_drop(copy);
            return result;
        }
    }
    /* The host cannot see when a copy runs that it waits for, or whose source lies aside. */
    copy->command.is_short = (wait || copy->staging != NULL) && box->width * box->height * box->depth <= SHORT_BYTES;
    uint64_t number;
    TRY(stream_submit(stream, &copy->command, &number));
    if (wait) {
        stream_wait(stream, number);
        return (CUresult)atomic_load(&stream->context->failure);
    }
    return CUDA_SUCCESS;
}

static CUresult
copy_box(const struct box *box, enum timing timing, CUstream handle, enum flavour flavour)
{
    struct stream *stream;
    CUresult result = stream_enter(handle, flavour, &stream);
    return result == CUDA_SUCCESS ? copy_submit(box, timing, ORDER_OF_CALL, stream) : result;
}

/* ---- one row ---- */

static CUresult
copy_row(uintptr_t to, enum side to_side, uintptr_t from, enum side from_side, size_t bytes, enum timing timing,
         CUstream stream, enum flavour flavour)
{
    struct box box = {.to = {.address = to, .side = to_side},
                      .from = {.address = from, .side = from_side},
                      .width = bytes,
                      .height = 1,
                      .depth = 1};
    return copy_box(&box, timing, stream, flavour);
}

#define DEFAULT_STREAM NULL

BOTH_FLAVOURS(cuMemcpy, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes),
              copy_row(to, UNIFIED, from, UNIFIED, bytes, SYNC, DEFAULT_STREAM, flavour))
BOTH_FLAVOURS(cuMemcpyAsync, _ptsz, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
              copy_row(to, UNIFIED, from, UNIFIED, bytes, ASYNC, stream, flavour))
BOTH_FLAVOURS(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr to, const void *from, size_t bytes),
              copy_row(to, DEVICE, (uintptr_t)from, HOST, bytes, SYNC, DEFAULT_STREAM, flavour))
BOTH_FLAVOURS(cuMemcpyHtoDAsync_v2, _ptsz, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream),
              copy_row(to, DEVICE, (uintptr_t)from, HOST, bytes, ASYNC, stream, flavour))
BOTH_FLAVOURS(cuMemcpyDtoH_v2, _ptds, (void *to, CUdeviceptr from, size_t bytes),
              copy_row((uintptr_t)to, HOST, from, DEVICE, bytes, SYNC, DEFAULT_STREAM, flavour))
BOTH_FLAVOURS(cuMemcpyDtoHAsync_v2, _ptsz, (void *to, CUdeviceptr from, size_t bytes, CUstream stream),
              copy_row((uintptr_t)to, HOST, from, DEVICE, bytes, ASYNC, stream, flavour))
BOTH_FLAVOURS(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes),
              copy_row(to, DEVICE, from, DEVICE, bytes, SYNC, DEFAULT_STREAM, flavour))
BOTH_FLAVOURS(cuMemcpyDtoDAsync_v2, _ptsz, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
              copy_row(to, DEVICE, from, DEVICE, bytes, ASYNC, stream, flavour))

/* ---- rows and planes ---- */

CUresult
copy_corner(CUmemorytype type, const void *host, CUdeviceptr device, size_t x, size_t y, size_t z, size_t pitch,
            size_t plane_rows, struct corner *corner_p)
{
    struct corner corner = {.pitch = pitch, .slice = pitch * plane_rows};
    switch (type) {
    case CU_MEMORYTYPE_HOST:
        corner.address = (uintptr_t)host;
        corner.side = HOST;
        break;
    case CU_MEMORYTYPE_DEVICE:
        corner.address = device;
        corner.side = DEVICE;
        break;
    case CU_MEMORYTYPE_UNIFIED:
        corner.address = device;
        corner.side = UNIFIED;
        break;
    case CU_MEMORYTYPE_ARRAY:
        say("copies from or to CUDA arrays are not supported");
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    REQUIRE(corner.address != 0);
    corner.address += z * corner.slice + y * pitch + x;
    *corner_p = corner;
    return CUDA_SUCCESS;
}

static CUresult
copy_2d(const CUDA_MEMCPY2D *copy, enum timing timing, CUstream stream, enum flavour flavour)
{
    REQUIRE(copy != NULL);
    struct box box = {.width = copy->WidthInBytes, .height = copy->Height, .depth = 1};
    TRY(copy_corner(copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstXInBytes, copy->dstY, 0,
                    copy->dstPitch, 0, &box.to));
    TRY(copy_corner(copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcXInBytes, copy->srcY, 0,
                    copy->srcPitch, 0, &box.from));
    return copy_box(&box, timing, stream, flavour);
}

static CUresult
box_3d(const CUDA_MEMCPY3D *copy, struct box *box_p)
{
    REQUIRE(copy != NULL && copy->srcLOD == 0 && copy->dstLOD == 0);
    *box_p = (struct box){.width = copy->WidthInBytes, .height = copy->Height, .depth = copy->Depth};
    TRY(copy_corner(copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstXInBytes, copy->dstY, copy->dstZ,
                    copy->dstPitch, copy->dstHeight, &box_p->to));
    return copy_corner(copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcXInBytes, copy->srcY, copy->srcZ,
                       copy->srcPitch, copy->srcHeight, &box_p->from);
}

CUresult
copy_command_new(const CUDA_MEMCPY3D *parameters, struct command **command_p)
{
    struct box box;
    TRY(box_3d(parameters, &box));
    TRY(box.width == 0 || box.height == 0 || box.depth == 0 ? CUDA_ERROR_INVALID_VALUE : copy_check(&box));
    struct copy_command *copy = command_new(sizeof *copy, run_copy);
    REQUIRE_ELSE(copy != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    copy->command.node_type = CU_GRAPH_NODE_TYPE_MEMCPY;
    copy->box = box;
    copy->staging = NULL;
    *command_p = &copy->command;
    return CUDA_SUCCESS;
}

static CUresult
copy_3d(const CUDA_MEMCPY3D *copy, enum timing timing, CUstream stream, enum flavour flavour)
{
    struct box box;
    CUresult result = box_3d(copy, &box);
    return result == CUDA_SUCCESS ? copy_box(&box, timing, stream, flavour) : result;
}

BOTH_FLAVOURS(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D *copy), copy_2d(copy, SYNC, DEFAULT_STREAM, flavour))
BOTH_FLAVOURS(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D *copy), copy_2d(copy, SYNC, DEFAULT_STREAM, flavour))
BOTH_FLAVOURS(cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D *copy, CUstream stream),
              copy_2d(copy, ASYNC, stream, flavour))
BOTH_FLAVOURS(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D *copy), copy_3d(copy, SYNC, DEFAULT_STREAM, flavour))
BOTH_FLAVOURS(cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D *copy, CUstream stream),
              copy_3d(copy, ASYNC, stream, flavour))
