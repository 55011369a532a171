/*
 * tensor_map.c - tensor maps: what TMA instructions get in place of a pointer. Encoded in the form that
 * softgpu/tensor_map.h describes; what a map says beside its address is checked as far as any GPU checks it, and kept.
 */
#include "driver.h"

#include "softgpu/tensor_map.h"

#include <string.h>

enum { RANK_LIMIT = 5, ADDRESS_ALIGNMENT = 16, MAP_ALIGNMENT = 64, WORD_RANK = 2, WORD_DIMENSIONS = 3 };

static void
write_address(CUtensorMap *map, void *address)
{
    uint64_t word = (uint64_t)(uintptr_t)address;
    map->opaque[0] = driver.scrambles_maps ? softgpu_tensor_map_scramble(word) : word;
    map->opaque[1] = driver.scrambles_maps ? SOFTGPU_TENSOR_MAP_SCRAMBLED : SOFTGPU_TENSOR_MAP_RAW;
}

/* `least_rank`: with windows over pixels a tensor has at least three dimensions. */
static CUresult
encode(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, cuuint32_t least_rank, void *address,
       const cuuint64_t *dimensions, const cuuint32_t *element_strides)
{
    struct context *context;
    TRY(context_enter(&context));
    REQUIRE(map != NULL && (uintptr_t)map % MAP_ALIGNMENT == 0 && address != NULL &&
            (uintptr_t)address % ADDRESS_ALIGNMENT == 0 && rank >= least_rank && rank <= RANK_LIMIT &&
            dimensions != NULL && element_strides != NULL);
    memset(map, 0, sizeof *map);
    write_address(map, address);
    map->opaque[WORD_RANK] = (uint64_t)rank << 32 | (uint64_t)type;
    for (cuuint32_t i = 0; i < rank; ++i) {
        map->opaque[WORD_DIMENSIONS + i] = dimensions[i];
    }
    return CUDA_SUCCESS;
}

CUresult
cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                       const cuuint64_t *dimensions, const cuuint64_t *strides, const cuuint32_t *box,
                       const cuuint32_t *element_strides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                       CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    (void)interleave, (void)swizzle, (void)promotion, (void)fill;
    REQUIRE(box != NULL && (rank <= 1 || strides != NULL));
    return encode(map, type, rank, 1, address, dimensions, element_strides);
}

CUresult
cuTensorMapEncodeIm2col(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                        const cuuint64_t *dimensions, const cuuint64_t *strides, const int *lower, const int *upper,
                        cuuint32_t channels, cuuint32_t pixels, const cuuint32_t *element_strides,
                        CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                        CUtensorMapFloatOOBfill fill)
{
    (void)channels, (void)pixels, (void)interleave, (void)swizzle, (void)promotion, (void)fill;
    REQUIRE(strides != NULL && lower != NULL && upper != NULL);
    return encode(map, type, rank, 3, address, dimensions, element_strides);
}

CUresult
cuTensorMapEncodeIm2colWide(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                            const cuuint64_t *dimensions, const cuuint64_t *strides, int lower, int upper,
                            cuuint32_t channels, cuuint32_t pixels, const cuuint32_t *element_strides,
                            CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode,
                            CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    (void)lower, (void)upper, (void)channels, (void)pixels, (void)interleave, (void)mode, (void)swizzle;
    (void)promotion, (void)fill;
    return strides == NULL ? CUDA_ERROR_INVALID_VALUE
                           : encode(map, type, rank, 3, address, dimensions, element_strides);
}

CUresult
cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    struct context *context;
    TRY(context_enter(&context));
    REQUIRE(map != NULL && softgpu_tensor_map_address(map->opaque) != 0 && address != NULL &&
            (uintptr_t)address % ADDRESS_ALIGNMENT == 0);
    write_address(map, address);
    return CUDA_SUCCESS;
}
