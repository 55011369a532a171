/*
 * operands.c - does an operand with holes share a byte with a range?
 *
 * Gradients lie next to one another: in one flat buffer, a batch of matrices may go round the biases between them, and
 * a vector whose elements lie far apart may leave out everything between. Called by touches.c, for gradients inside the
 * bounds of an operand only. Pure arithmetic: no lock, no memory.
 */
#include "interpose/engine/memory/memory.h"

/* The first of `count` places, `stride` apart from `start`, whose `bytes` end after `begin`; else `count`. */
static size_t
first_after(uint64_t start, size_t stride, size_t count, size_t bytes, uint64_t begin)
{
    if (start + bytes > begin)
        return 0;
    if (stride == 0)
        return count;
    uint64_t place = (begin - start - bytes) / stride + 1;
    return place < count ? (size_t)place : count;
}

static bool
reaches_once(const struct pieces *pieces, uint64_t start, uint64_t begin, uint64_t end)
{
    size_t at = first_after(start, pieces->inner_stride, pieces->inner_count, pieces->bytes, begin);
    return at < pieces->inner_count && start + at * pieces->inner_stride < end;
}

bool
operand_reaches(const struct operand *operand, uint64_t begin, uint64_t end)
{
    const struct pieces *pieces = &operand->pieces;
    if (operand->address >= end || operand->address + operand->bytes <= begin)
        return false;
    if (pieces->bytes == 0)
        return true;

    size_t block = (pieces->inner_count - 1) * pieces->inner_stride + pieces->bytes;
    size_t at = first_after(operand->address, pieces->outer_stride, pieces->outer_count, block, begin);
    for (; at < pieces->outer_count; ++at) {
        uint64_t start = operand->address + at * pieces->outer_stride;
        if (start >= end)
            return false;
        if (reaches_once(pieces, start, begin, end))
            return true;
        if (pieces->outer_stride == 0)
            return false;
    }
    return false;
}
