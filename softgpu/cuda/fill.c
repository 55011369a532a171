/*
 * fill.c - memset: elements of 1, 2 or 4 bytes, in rows. Returns before it is done unless the memory is the host's or
 * managed.
 */
#include "driver.h"

#include <string.h>

enum timing { SYNC, ASYNC };

struct fill {
    uintptr_t address;
    size_t pitch;
    uint32_t value;
    size_t element_bytes;
    size_t width, height; /* elements, rows */
};

struct fill_command {
    struct command command;
    struct fill fill;
};

static void
fill_rows(const struct fill *fill)
{
    for (size_t y = 0; y < fill->height; ++y) {
        char *row = (char *)fill->address + y * fill->pitch;
        if (fill->element_bytes == 1) {
            memset(row, (int)fill->value, fill->width);
        }
        for (size_t x = 0; fill->element_bytes == 2 && x < fill->width; ++x) {
            ((uint16_t *)row)[x] = (uint16_t)fill->value;
        }
        for (size_t x = 0; fill->element_bytes == 4 && x < fill->width; ++x) {
            ((uint32_t *)row)[x] = fill->value;
        }
    }
}

static void
run_fill(struct command *command, struct stream *stream)
{
    if (atomic_load(&stream->context->failure) == CUDA_SUCCESS) {
        strict_begin(false);
        fill_rows(&((struct fill_command *)command)->fill);
        strict_end(false, stream->context, "a memset");
    }
}

static CUresult
check(const struct fill *fill, struct allocation *found)
{
    size_t row_bytes, bytes;
    REQUIRE(fill->address % fill->element_bytes == 0 && (fill->height <= 1 || fill->pitch % fill->element_bytes == 0));
    REQUIRE(!__builtin_mul_overflow(fill->width, fill->element_bytes, &row_bytes) &&
            !__builtin_mul_overflow(fill->height - 1, fill->pitch, &bytes) &&
            !__builtin_add_overflow(bytes, row_bytes, &bytes));
    REQUIRE(fill->height <= 1 || fill->pitch >= row_bytes);
    REQUIRE(memory_find(fill->address, found) && !found->freeing && bytes <= memory_reach(fill->address));
    return CUDA_SUCCESS;
}

CUresult
fill_command_new(const CUDA_MEMSET_NODE_PARAMS *parameters, struct command **command_p)
{
    struct allocation found;
    REQUIRE(parameters != NULL && parameters->width != 0 && parameters->height != 0 &&
            (parameters->elementSize == 1 || parameters->elementSize == 2 || parameters->elementSize == 4));
    struct fill fill = {.address = parameters->dst,
                        .pitch = parameters->pitch,
                        .value = parameters->value,
                        .element_bytes = parameters->elementSize,
                        .width = parameters->width,
                        .height = parameters->height};
    TRY(check(&fill, &found));
    struct fill_command *command = command_new(sizeof *command, run_fill);
    REQUIRE_ELSE(command != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    command->command.node_type = CU_GRAPH_NODE_TYPE_MEMSET;
    command->fill = fill;
    *command_p = &command->command;
    return CUDA_SUCCESS;
}

static CUresult
enqueue_fill(struct fill fill, enum timing timing, CUstream handle, enum flavour flavour)
{
    struct stream *stream;
    CUresult result = stream_enter(handle, flavour, &stream);
    if (result != CUDA_SUCCESS || fill.width == 0 || fill.height == 0) {
        return result;
    }
    struct allocation found;
    TRY(check(&fill, &found));
    struct fill_command *command = command_new(sizeof *command, run_fill);
    REQUIRE_ELSE(command != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    command->command.node_type = CU_GRAPH_NODE_TYPE_MEMSET;
    command->fill = fill;
    uint64_t number;
    result = stream_submit(stream, &command->command, &number);
    if (result == CUDA_SUCCESS && timing == SYNC &&
        (found.kind == MEMORY_HOST || found.kind == MEMORY_REGISTERED || found.kind == MEMORY_MANAGED)) {
        stream_wait(stream, number);
        result = (CUresult)atomic_load(&stream->context->failure);
    }
    return result;
}

#define ROW(to, value, bytes, count)                 ((struct fill){(to), 0, (value), (bytes), (count), 1})
#define ROWS(to, pitch, value, bytes, width, height) ((struct fill){(to), (pitch), (value), (bytes), (width), (height)})

BOTH_FLAVOURS(cuMemsetD8_v2, _ptds, (CUdeviceptr to, unsigned char value, size_t count),
              enqueue_fill(ROW(to, value, 1, count), SYNC, NULL, flavour))
BOTH_FLAVOURS(cuMemsetD16_v2, _ptds, (CUdeviceptr to, unsigned short value, size_t count),
              enqueue_fill(ROW(to, value, 2, count), SYNC, NULL, flavour))
BOTH_FLAVOURS(cuMemsetD32_v2, _ptds, (CUdeviceptr to, unsigned int value, size_t count),
              enqueue_fill(ROW(to, value, 4, count), SYNC, NULL, flavour))
BOTH_FLAVOURS(cuMemsetD8Async, _ptsz, (CUdeviceptr to, unsigned char value, size_t count, CUstream stream),
              enqueue_fill(ROW(to, value, 1, count), ASYNC, stream, flavour))
BOTH_FLAVOURS(cuMemsetD16Async, _ptsz, (CUdeviceptr to, unsigned short value, size_t count, CUstream stream),
              enqueue_fill(ROW(to, value, 2, count), ASYNC, stream, flavour))
BOTH_FLAVOURS(cuMemsetD32Async, _ptsz, (CUdeviceptr to, unsigned int value, size_t count, CUstream stream),
              enqueue_fill(ROW(to, value, 4, count), ASYNC, stream, flavour))

BOTH_FLAVOURS(cuMemsetD2D8_v2, _ptds, (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height),
              enqueue_fill(ROWS(to, pitch, value, 1, width, height), SYNC, NULL, flavour))
BOTH_FLAVOURS(cuMemsetD2D16_v2, _ptds,
              (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height),
              enqueue_fill(ROWS(to, pitch, value, 2, width, height), SYNC, NULL, flavour))
BOTH_FLAVOURS(cuMemsetD2D32_v2, _ptds, (CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height),
              enqueue_fill(ROWS(to, pitch, value, 4, width, height), SYNC, NULL, flavour))
BOTH_FLAVOURS(cuMemsetD2D8Async, _ptsz,
              (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream),
              enqueue_fill(ROWS(to, pitch, value, 1, width, height), ASYNC, stream, flavour))
BOTH_FLAVOURS(cuMemsetD2D16Async, _ptsz,
              (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream),
              enqueue_fill(ROWS(to, pitch, value, 2, width, height), ASYNC, stream, flavour))
BOTH_FLAVOURS(cuMemsetD2D32Async, _ptsz,
              (CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height, CUstream stream),
              enqueue_fill(ROWS(to, pitch, value, 4, width, height), ASYNC, stream, flavour))
