/*
 * test_tensor_map.c - tensor maps: every encoder writes the address where kernels find it again, as it is or, with
 * SOFTGPU_TENSOR_MAPS=scrambled, in no place of the map; what no GPU takes is refused.
 *
 * Run in both forms.
 */
#include "kernels.h"

#include "softgpu/tensor_map.h"

#include "tests/lib/test.h"

static const cuuint64_t dimensions[] = {4, 8, 16}, strides[] = {16, 128};
static const cuuint32_t box[] = {4, 1, 1}, element_strides[] = {1, 1, 1};
static const int lower[] = {0}, upper[] = {0};

static CUresult
tiled(CUtensorMap *map, cuuint32_t rank, void *address)
{
    return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, rank, address, dimensions, strides, box,
                                  element_strides, 0, 0, 0, 0);
}

static CUresult
im2col(CUtensorMap *map, cuuint32_t rank, void *address)
{
    return cuTensorMapEncodeIm2col(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, rank, address, dimensions, strides, lower,
                                   upper, 4, 4, element_strides, 0, 0, 0, 0);
}

static CUresult
wide(CUtensorMap *map, cuuint32_t rank, void *address)
{
    return cuTensorMapEncodeIm2colWide(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, rank, address, dimensions, strides, 0, 0,
                                       4, 4, element_strides, 0, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W, 0, 0, 0);
}

/* Whether the 8 bytes stand in the map at any offset. */
static bool
holds(const CUtensorMap *map, uint64_t address)
{
    for (size_t at = 0; at + sizeof address <= sizeof *map; ++at) {
        if (memcmp((const char *)map + at, &address, sizeof address) == 0)
            return true;
    }
    return false;
}

static void
check_map(const CUtensorMap *map, uint64_t address)
{
    ck_assert_uint_eq(softgpu_tensor_map_address(map->opaque), address);
    const char *form = getenv("SOFTGPU_TENSOR_MAPS");
    ck_assert(holds(map, address) == (form == NULL || strcmp(form, "scrambled") != 0));
}

TEST(encoders_write_the_address)
{
    CUresult (*const encoders[])(CUtensorMap *, cuuint32_t, void *) = {tiled, im2col, wide};
    use_device();
    CUdeviceptr memory = device_memory(4096), other = device_memory(4096);
    for (int i = 0; i < 3; ++i) {
        CUtensorMap map;
        OK(encoders[i](&map, 3, (void *)memory));
        check_map(&map, memory);
        OK(cuTensorMapReplaceAddress(&map, (void *)other));
        check_map(&map, other);
        ck_assert_int_eq(encoders[i](&map, 6, (void *)memory), CUDA_ERROR_INVALID_VALUE);
        ck_assert_int_eq(encoders[i](&map, 0, (void *)memory), CUDA_ERROR_INVALID_VALUE);
        ck_assert_int_eq(encoders[i](&map, 3, (void *)(memory + 8)), CUDA_ERROR_INVALID_VALUE);
        ck_assert_int_eq(encoders[i](&map, 3, NULL), CUDA_ERROR_INVALID_VALUE);
        ck_assert_int_eq(encoders[i](NULL, 3, (void *)memory), CUDA_ERROR_INVALID_VALUE);
        ck_assert_int_eq(cuTensorMapReplaceAddress(&map, (void *)(other + 4)), CUDA_ERROR_INVALID_VALUE);
        check_map(&map, other); /* nothing of this has changed it */
    }
    CUtensorMap map = {{0}};
    OK(tiled(&map, 1, (void *)memory));
    ck_assert_int_eq(im2col(&map, 2, (void *)memory), CUDA_ERROR_INVALID_VALUE);
    memset(&map, 0, sizeof map);
    ck_assert_int_eq(cuTensorMapReplaceAddress(&map, (void *)other), CUDA_ERROR_INVALID_VALUE);
}
