/*
 * test_copy_batch.c - batches of copies, and boxes between devices.
 *
 * Properties: a batch moves exactly the bytes it should, whatever memory its copies join, through every version and
 * flavour of the calls (random batches against plain loops); it runs in stream order as a whole; its sources are read
 * when the access order says; where one copy is wrong it is named, and none has been made.
 */
#include "kernels.h"

#include "tests/lib/test.h"

#include <cuda_runtime_api.h>

enum { ARENA_BYTES = 4096, MOST_COPIES = 20, KINDS = 4 };

static unsigned
draw(unsigned *seed, unsigned below)
{
    return (unsigned)rand_r(seed) % below;
}

static void *
call_of(const char *name, int version, bool per_thread)
{
    void *function = NULL;
    cuuint64_t flags = per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    OK(cuGetProcAddress_v2(name, &function, version, flags, NULL));
    ck_assert_ptr_nonnull(function);
    return function;
}

typedef CUresult (*rows_12080)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t,
                               size_t *, CUstream);
typedef CUresult (*rows_13000)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t,
                               CUstream);
typedef CUresult (*boxes_12080)(size_t, CUDA_MEMCPY3D_BATCH_OP *, size_t *, unsigned long long, CUstream);
typedef CUresult (*boxes_13000)(size_t, CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream);

/* Memory of each kind, and what it should hold. */
struct arenas {
    CUdeviceptr at[KINDS];
    unsigned char wanted[KINDS][ARENA_BYTES];
};

static void
make_arenas(struct arenas *arenas, unsigned *seed)
{
    arenas->at[0] = device_memory(ARENA_BYTES);
    arenas->at[1] = managed_memory(ARENA_BYTES);
    arenas->at[2] = (CUdeviceptr)pinned_memory(ARENA_BYTES);
    arenas->at[3] = (CUdeviceptr)malloc(ARENA_BYTES);
    for (int k = 0; k < KINDS; ++k) {
        for (int i = 0; i < ARENA_BYTES; ++i)
            arenas->wanted[k][i] = (unsigned char)rand_r(seed);
        OK(cuMemcpy(arenas->at[k], (CUdeviceptr)arenas->wanted[k], ARENA_BYTES));
    }
    OK(cuCtxSynchronize());
}

static void
check_arenas(const struct arenas *arenas)
{
    unsigned char seen[ARENA_BYTES];
    for (int k = 0; k < KINDS; ++k) {
        OK(cuMemcpy((CUdeviceptr)seen, arenas->at[k], ARENA_BYTES));
        ck_assert_mem_eq(seen, arenas->wanted[k], ARENA_BYTES);
    }
}

static void
free_arenas(const struct arenas *arenas)
{
    OK(cuMemFree(arenas->at[0]));
    OK(cuMemFree(arenas->at[1]));
    OK(cuMemFreeHost((void *)arenas->at[2]));
    free((void *)arenas->at[3]);
}

/* ---- rows ---- */

/* Copies never overlap: each has a slice of every arena, and reads its lower half or writes its upper one. */
struct rows {
    CUdeviceptr to[MOST_COPIES], from[MOST_COPIES];
    size_t bytes[MOST_COPIES], count;
    CUmemcpyAttributes attributes[MOST_COPIES];
    size_t indices[MOST_COPIES], attribute_count;
};

/* As the calls take them. */
#define ROWS(r) (r).to, (r).from, (r).bytes, (r).count, (r).attributes, (r).indices, (r).attribute_count

static void
draw_rows(struct rows *rows, struct arenas *arenas, unsigned *seed)
{
    const size_t slice = ARENA_BYTES / MOST_COPIES, half = slice / 2;
    *rows = (struct rows){.count = 1 + draw(seed, MOST_COPIES)};
    for (size_t i = 0; i < rows->count; ++i) {
        const unsigned to = draw(seed, KINDS), from = draw(seed, KINDS);
        const size_t at = i * slice + half + draw(seed, 8), source = i * slice + draw(seed, 8);
        rows->bytes[i] = 1 + draw(seed, (unsigned)half - 8);
        rows->to[i] = arenas->at[to] + at;
        rows->from[i] = arenas->at[from] + source;
        memcpy(arenas->wanted[to] + at, arenas->wanted[from] + source, rows->bytes[i]);
        if (i == 0 || draw(seed, 4) == 0) {
            const size_t k = rows->attribute_count++;
            rows->indices[k] = i;
            rows->attributes[k] = (CUmemcpyAttributes){
                .srcAccessOrder = (CUmemcpySrcAccessOrder)(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM + draw(seed, 3)),
                .flags = draw(seed, 2)};
        }
    }
}

TEST_GROUP(all, .timeout_s = 100, .setup = use_device);

LOOP_TEST(rows_of_a_batch_arrive, 0, 60)
{
    unsigned seed = (unsigned)_i;
    struct arenas arenas;
    struct rows rows;
    size_t failed;
    make_arenas(&arenas, &seed);
    draw_rows(&rows, &arenas, &seed);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    const bool per_thread = _i / 3 % 2 == 1;
    if (per_thread)
        stream = NULL;
    if (_i % 3 == 0)
        OK(((rows_12080)call_of("cuMemcpyBatchAsync", 12080, per_thread))(ROWS(rows), &failed, stream));
    else if (_i % 3 == 1)
        OK(((rows_13000)call_of("cuMemcpyBatchAsync", 13000, per_thread))(ROWS(rows), stream));
    else
        OK(cudaMemcpyBatchAsync((void *const *)rows.to, (const void *const *)rows.from, rows.bytes, rows.count,
                                (struct cudaMemcpyAttributes *)rows.attributes, rows.indices, rows.attribute_count,
                                per_thread ? cudaStreamPerThread : stream));
    OK(cuStreamSynchronize(per_thread ? CU_STREAM_PER_THREAD : stream));
    check_arenas(&arenas);
    free_arenas(&arenas);
}

TEST(sources_are_read_when_the_order_says)
{
    atomic_int open = 0;
    unsigned char *source[3], seen[3];
    CUdeviceptr to = device_memory(3);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 2; ++i)
        source[i] = pinned_memory(1);
    source[2] = malloc(1); /* pageable */
    *source[0] = *source[1] = *source[2] = 1;
    launch_one(load_function(&gate_image), stream, &open);

    CUdeviceptr tos[] = {to, to + 1, to + 2};
    CUdeviceptr froms[] = {(CUdeviceptr)source[0], (CUdeviceptr)source[1], (CUdeviceptr)source[2]};
    size_t bytes[] = {1, 1, 1}, indices[] = {0, 1};
    CUmemcpyAttributes attributes[] = {{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL},
                                       {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM}};
    rows_13000 copy = (rows_13000)call_of("cuMemcpyBatchAsync", 13000, false);
    OK(copy(tos, froms, bytes, 3, attributes, indices, 2, stream));
    *source[0] = *source[1] = *source[2] = 2;
    atomic_store(&open, 1);
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH(seen, to, 3));
    ck_assert_int_eq(seen[0], 1);
    ck_assert_int_eq(seen[1], 2);
    ck_assert_int_eq(seen[2], 2);
    ck_assert_int_eq(atomic_load(&gate_gave_up), 0);
    free(source[2]);
}

LOOP_TEST(a_wrong_copy_is_named_and_none_is_made, 0, 16)
{
    unsigned seed = (unsigned)_i + 1000;
    struct arenas arenas, untouched;
    struct rows rows;
    size_t failed = 12345;
    make_arenas(&arenas, &seed);
    untouched = arenas;
    draw_rows(&rows, &arenas, &seed);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    rows_12080 copy = (rows_12080)call_of("cuMemcpyBatchAsync", 12080, false);
    const size_t wrong = draw(&seed, (unsigned)rows.count);
    struct rows broken = rows;
    switch (_i % 4) {
    case 0:
        broken.bytes[wrong] = 0;
        break;
    case 1:
        broken.to[wrong] = arenas.at[0] + ARENA_BYTES - 1;
        broken.bytes[wrong] = 2;
        break;
    case 2:
        broken.from[wrong] = 0;
        break;
    default:
        for (size_t k = 0; k < broken.attribute_count; ++k)
            if (broken.indices[k] <= wrong && (k + 1 == broken.attribute_count || broken.indices[k + 1] > wrong)) {
                broken.attributes[k].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
                failed = broken.indices[k];
            }
    }
    const size_t named = _i % 4 == 3 ? failed : wrong;
    ck_assert_int_eq(copy(ROWS(broken), &failed, stream), CUDA_ERROR_INVALID_VALUE);
    ck_assert_uint_eq(failed, named);

    /* Mistakes of the whole batch name no copy. */
    ck_assert_int_eq(copy(ROWS(rows), &failed, CU_STREAM_LEGACY), CUDA_ERROR_INVALID_VALUE);
    ck_assert_uint_eq(failed, SIZE_MAX);
    rows.indices[0] = 1;
    ck_assert_int_eq(copy(ROWS(rows), &failed, stream), CUDA_ERROR_INVALID_VALUE);
    ck_assert_uint_eq(failed, SIZE_MAX);
    ck_assert_int_eq(copy(rows.to, rows.from, rows.bytes, 0, rows.attributes, rows.indices, 1, &failed, stream),
                     CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamSynchronize(stream));
    check_arenas(&untouched);
    free_arenas(&arenas);
}

/* ---- boxes ---- */

enum { PITCH = 16, ROWS = 8, PLANES = 4, BOX_BYTES = PITCH * ROWS * PLANES };

struct shape {
    size_t width, height, depth;
};

static void
copy_plainly(unsigned char *to, size_t to_pitch, size_t to_rows, const unsigned char *from, size_t from_pitch,
             size_t from_rows, struct shape shape)
{
    for (size_t z = 0; z < shape.depth; ++z)
        for (size_t y = 0; y < shape.height; ++y)
            memcpy(to + (z * to_rows + y) * to_pitch, from + (z * from_rows + y) * from_pitch, shape.width);
}

LOOP_TEST(boxes_of_a_batch_arrive, 0, 30)
{
    unsigned seed = (unsigned)_i;
    unsigned char source[BOX_BYTES], wanted[4][BOX_BYTES], seen[BOX_BYTES];
    CUdeviceptr device[4];
    CUDA_MEMCPY3D_BATCH_OP operations[4];
    for (int i = 0; i < BOX_BYTES; ++i)
        source[i] = (unsigned char)rand_r(&seed);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    for (int k = 0; k < 4; ++k) {
        const struct shape shape = {1 + draw(&seed, PITCH), 1 + draw(&seed, ROWS), 1 + draw(&seed, PLANES)};
        const size_t pitch = draw(&seed, 2) ? PITCH : 0, rows = draw(&seed, 2) ? ROWS : 0;
        memset(wanted[k], 7, BOX_BYTES);
        copy_plainly(wanted[k], pitch != 0 ? pitch : shape.width, rows != 0 ? rows : shape.height, source, PITCH, ROWS,
                     shape);
        device[k] = device_memory(BOX_BYTES);
        OK(cuMemsetD8(device[k], 7, BOX_BYTES));
        operations[k] = (CUDA_MEMCPY3D_BATCH_OP){
            .src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER,
                    .op.ptr = {.ptr = (CUdeviceptr)source, .rowLength = PITCH, .layerHeight = ROWS}},
            .dst = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER,
                    .op.ptr = {.ptr = device[k], .rowLength = pitch, .layerHeight = rows}},
            .extent = {shape.width, shape.height, shape.depth},
            .srcAccessOrder = (CUmemcpySrcAccessOrder)(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM + draw(&seed, 3))};
    }
    OK(cuCtxSynchronize());
    size_t failed = 0;
    if (_i % 3 == 0)
        OK(((boxes_12080)call_of("cuMemcpy3DBatchAsync", 12080, false))(4, operations, &failed, 0, stream));
    else if (_i % 3 == 1)
        OK(((boxes_13000)call_of("cuMemcpy3DBatchAsync", 13000, true))(4, operations, 0, stream));
    else
        OK(cudaMemcpy3DBatchAsync(4, (struct cudaMemcpy3DBatchOp *)operations, 0, stream));
    OK(cuStreamSynchronize(stream));
    for (int k = 0; k < 4; ++k) {
        OK(cuMemcpyDtoH(seen, device[k], BOX_BYTES));
        ck_assert_mem_eq(seen, wanted[k], BOX_BYTES);
    }

    /* What is wrong with an operation names it. */
    operations[2].extent.height = 0;
    boxes_12080 copy = (boxes_12080)call_of("cuMemcpy3DBatchAsync", 12080, true);
    ck_assert_int_eq(copy(4, operations, &failed, 0, stream), CUDA_ERROR_INVALID_VALUE);
    ck_assert_uint_eq(failed, 2);
    operations[1].src.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
    ck_assert_int_eq(copy(4, operations, &failed, 0, stream), CUDA_ERROR_NOT_SUPPORTED);
    ck_assert_uint_eq(failed, 1);
    ck_assert_int_eq(copy(1, operations, &failed, 1, stream), CUDA_ERROR_INVALID_VALUE);
}

LOOP_TEST(boxes_go_between_devices, 0, 12)
{
    unsigned seed = (unsigned)_i;
    unsigned char source[BOX_BYTES], wanted[BOX_BYTES], seen[BOX_BYTES];
    CUcontext context[2];
    CUdeviceptr device[2];
    const struct shape shape = {1 + draw(&seed, PITCH - 2), 1 + draw(&seed, ROWS - 1), 1 + draw(&seed, PLANES - 1)};
    for (int k = 1; k >= 0; --k) { /* device 0 is current at the end */
        OK(cuDevicePrimaryCtxRetain(&context[k], k));
        OK(cuCtxSetCurrent(context[k]));
        device[k] = device_memory(BOX_BYTES);
    }
    for (int i = 0; i < BOX_BYTES; ++i)
        source[i] = (unsigned char)rand_r(&seed);
    memset(wanted, 9, BOX_BYTES);
    copy_plainly(wanted + (1 * ROWS + 1) * PITCH + 2, PITCH, ROWS, source + PITCH, PITCH, ROWS, shape);
    OK(cuMemcpyHtoD(device[0], source, BOX_BYTES));
    OK(cuMemsetD8(device[1], 9, BOX_BYTES));
    OK(cuCtxSynchronize());
    CUDA_MEMCPY3D_PEER copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                               .srcDevice = device[0],
                               .srcContext = context[0],
                               .srcY = 1,
                               .srcPitch = PITCH,
                               .srcHeight = ROWS,
                               .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                               .dstDevice = device[1],
                               .dstContext = context[1],
                               .dstXInBytes = 2,
                               .dstY = 1,
                               .dstZ = 1,
                               .dstPitch = PITCH,
                               .dstHeight = ROWS,
                               .WidthInBytes = shape.width,
                               .Height = shape.height,
                               .Depth = shape.depth};
    struct cudaMemcpy3DPeerParms same = {.srcPtr = {(void *)device[0], PITCH, PITCH, ROWS},
                                         .srcPos = {0, 1, 0},
                                         .srcDevice = 0,
                                         .dstPtr = {(void *)device[1], PITCH, PITCH, ROWS},
                                         .dstPos = {2, 1, 1},
                                         .dstDevice = 1,
                                         .extent = {shape.width, shape.height, shape.depth}};
    if (_i % 4 == 0)
        OK(cuMemcpy3DPeer(&copy));
    else if (_i % 4 == 1)
        OK(cuMemcpy3DPeerAsync(&copy, CU_STREAM_LEGACY));
    else if (_i % 4 == 2)
        OK(cudaMemcpy3DPeer(&same));
    else
        OK(cudaMemcpy3DPeerAsync(&same, cudaStreamLegacy));
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(seen, device[1], BOX_BYTES));
    ck_assert_mem_eq(seen, wanted, BOX_BYTES);
    copy.dstContext = NULL;
    ck_assert_int_ne(cuMemcpy3DPeer(&copy), CUDA_SUCCESS);
}

int
main(void)
{
    setenv("SOFTGPU_DEVICES", "2", 1);
    return tests_run();
}
