/*
 * types.c - the element types of annotations (enum ddp_type): their sizes, names and counterparts in NCCL. Constant.
 */
#include "interpose/engine/core/core.h"

struct type_row {
    size_t bytes;
    const char *name;
    ncclDataType_t nccl;
    uint64_t exponent;
};

static const struct type_row types[] = {
    [DDP_FLOAT32] = {4, "float32", ncclFloat32, 0x7f800000},
    [DDP_FLOAT64] = {8, "float64", ncclFloat64, 0x7ff0000000000000},
    [DDP_FLOAT16] = {2, "float16", ncclFloat16, 0x7c00},
    [DDP_BFLOAT16] = {2, "bfloat16", NCCL_BFLOAT16, 0x7f80},
    [DDP_INT32] = {4, "int32", ncclInt32, 0},
    [DDP_INT64] = {8, "int64", ncclInt64, 0},
    [DDP_UINT8] = {1, "uint8", ncclUint8, 0},
    [DDP_UINT32] = {4, "uint32", ncclUint32, 0},
    [DDP_UINT64] = {8, "uint64", ncclUint64, 0},
};

static bool
is_type(int type)
{
    return type >= DDP_FLOAT32 && type <= DDP_UINT64;
}

bool
type_is_of_gradients(int type)
{
    return type >= DDP_FLOAT32 && type <= DDP_BFLOAT16;
}

size_t
type_bytes(int type)
{
    return is_type(type) ? types[type].bytes : 0;
}

const char *
type_name(int type)
{
    return is_type(type) ? types[type].name : "of an unknown type";
}

ncclDataType_t
type_nccl(int type)
{
    return types[type].nccl;
}

uint64_t
type_exponent(int type)
{
    return types[type].exponent;
}
