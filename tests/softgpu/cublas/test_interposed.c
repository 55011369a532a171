/*
 * test_interposed.c - an interposer between the libraries and the driver sees what they do: this program defines
 * dlsym, hands out a cuGetProcAddress of its own, and through that a cuLaunchKernel that looks at every launch. Each
 * operation of cuBLAS and NCCL must pass it, with its operands as pointer parameters that cuFuncGetParamInfo describes.
 */
#include "device.h"

#include "tests/softgpu/real_dlsym.h"
#include "tests/test.h"

#include <cublas_v2.h>
#include <execinfo.h>
#include <nccl.h>

void *dlsym(void *library, const char *name);

static __typeof__(cuGetProcAddress) *real_get_proc_address;
static __typeof__(cuLaunchKernel) *real_launch_kernel;

/* The last launch, and how many there were. */
static struct {
    int count;
    CUstream stream;
    char name[64];
    size_t pointer_count;
    const void *pointers[16];
    int frames; /* between the driver and the end of the stack */
} seen;

static CUresult CUDAAPI
watching_launch(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                unsigned shared_bytes, CUstream stream, void **params, void **extra)
{
    const char *name = "";
    size_t offset, bytes;
    cuFuncGetName(&name, function);
    void *stack[64];
    ++seen.count;
    seen.frames = backtrace(stack, 64);
    seen.stream = stream;
    strncpy(seen.name, name, sizeof(seen.name) - 1);
    seen.pointer_count = 0;
    for (size_t i = 0; cuFuncGetParamInfo(function, i, &offset, &bytes) == CUDA_SUCCESS; ++i) {
        if (bytes == sizeof(void *) && seen.pointer_count < 16)
            seen.pointers[seen.pointer_count++] = *(const void **)params[i];
    }
    return real_launch_kernel(function, gx, gy, gz, bx, by, bz, shared_bytes, stream, params, extra);
}

static CUresult CUDAAPI
watching_get_proc_address(const char *name, void **function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult *status)
{
    CUresult result = real_get_proc_address(name, function, version, flags, status);
    if (result == CUDA_SUCCESS && strcmp(name, "cuLaunchKernel") == 0) {
        memcpy(&real_launch_kernel, function, sizeof(*function));
        __typeof__(&watching_launch) mine = watching_launch;
        memcpy(function, &mine, sizeof(*function));
    }
    return result;
}

/* Public dlsym, for the whole process. */
__attribute__((visibility("default"))) void *
dlsym(void *library, const char *name)
{
    void *found = real_dlsym(library, name);
    if (strcmp(name, "cuGetProcAddress_v2") != 0)
        return found;
    __typeof__(&watching_get_proc_address) mine = watching_get_proc_address;
    memcpy(&real_get_proc_address, &found, sizeof(found));
    memcpy(&found, &mine, sizeof(found));
    return found;
}

static bool
saw_pointer(const void *pointer)
{
    for (size_t i = 0; i < seen.pointer_count; ++i) {
        if (seen.pointers[i] == pointer)
            return true;
    }
    return false;
}

TEST_GROUP(interposed, .start = device_start);

TEST(products_pass_with_their_operands)
{
    cublasHandle_t handle;
    CUstream stream;
    float one = 1.0f, *a = device_copy_of(NULL, 64), *b = device_copy_of(NULL, 64), *c = device_copy_of(NULL, 64);
    ck_assert_int_eq(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
    ck_assert_int_eq(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ck_assert_int_eq(cublasSetStream(handle, stream), CUBLAS_STATUS_SUCCESS);
    int before = seen.count;
    ck_assert_int_eq(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, a, 4, b, 4, &one, c, 4), 0);
    ck_assert_int_eq(seen.count, before + 1);
    ck_assert_str_eq(seen.name, "cublas_gemm");
    void *here[64];
    const char *unruly = getenv("SOFTGPU_UNRULY"); /* then the library is deep */
    ck_assert_int_eq(seen.frames - backtrace(here, 64) > 12, unruly != NULL && *unruly != '\0');
    ck_assert_ptr_eq(seen.stream, stream);
    ck_assert(saw_pointer(a) && saw_pointer(b) && saw_pointer(c) && !saw_pointer(&one));
    ck_assert_int_eq(cublasSaxpy(handle, 4, &one, a, 1, b, 1), 0);
    ck_assert_int_eq(seen.count, before + 2);
    ck_assert(saw_pointer(a) && saw_pointer(b));
    ck_assert_int_eq(cublasSgemv(handle, CUBLAS_OP_N, 4, 4, &one, a, 4, b, 1, &one, c, 1), 0);
    ck_assert_int_eq(seen.count, before + 3);
    ck_assert(saw_pointer(a) && saw_pointer(b) && saw_pointer(c));
    ck_assert_int_eq(cublasDestroy(handle), CUBLAS_STATUS_SUCCESS);
}

TEST(collectives_pass_with_their_buffers)
{
    ncclUniqueId id;
    ncclComm_t comm;
    float *a = device_copy_of(NULL, 64), *b = device_copy_of(NULL, 64);
    ck_assert_int_eq(ncclGetUniqueId(&id), ncclSuccess);
    ck_assert_int_eq(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
    int before = seen.count;
    ck_assert_int_eq(ncclAllReduce(a, b, 16, ncclFloat, ncclSum, comm, NULL), ncclSuccess);
    ck_assert_int_eq(seen.count, before + 1);
    ck_assert_str_eq(seen.name, "ncclDevKernel_AllReduce");
    ck_assert(saw_pointer(a) && saw_pointer(b));
    ck_assert_int_eq(ncclCommDestroy(comm), ncclSuccess);
}
