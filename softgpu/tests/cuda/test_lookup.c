/*
 * test_lookup.c - every function of the driver and the runtime is there, under the names and versions that CUDA has.
 *
 * Properties: what cuGetProcAddress returns is what dlsym finds under the ABI name; the 440 look-ups that NVIDIA's
 * static runtime 13.0 makes all resolve; versions and default-stream flavours choose as the CUDA manual says; the
 * runtime exports each name of the real one under its version node; what is not implemented reports that and returns
 * NotSupported.
 */
#include "kernels.h"

#include "tests/lib/test.h"

#include <cuda_runtime_api.h>

static void *driver_library;

static void *
look_up(const char *name, int version, cuuint64_t flags)
{
    void *function = (void *)1;
    CUdriverProcAddressQueryResult status;
    OK(cuGetProcAddress_v2(name, &function, version, flags, &status));
    ck_assert_int_eq(status == CU_GET_PROC_ADDRESS_SUCCESS, function != NULL);
    return function;
}

static void
check_same(const char *name, int version, cuuint64_t flags, const char *abi)
{
    void *exported = dlsym(driver_library, abi);
    ck_assert_msg(exported != NULL, "%s is not exported", abi);
    ck_assert_msg(look_up(name, version, flags) == exported, "%s, version %d, flags %d is not %s", name, version,
                  (int)flags, abi);
}

enum { OLD = CU_GET_PROC_ADDRESS_LEGACY_STREAM, PTS = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM };

TEST(look_up_and_dlsym_agree)
{
    driver_library = dlopen("libcuda.so.1", RTLD_NOW);
    ck_assert_ptr_nonnull(driver_library);
    check_same("cuInit", 2000, 0, "cuInit");
    check_same("cuMemAlloc", 3020, 0, "cuMemAlloc_v2");
    check_same("cuMemAlloc", 13000, PTS, "cuMemAlloc_v2");
    check_same("cuLaunchKernel", 4000, 0, "cuLaunchKernel");
    check_same("cuLaunchKernel", 7000, OLD, "cuLaunchKernel");
    check_same("cuLaunchKernel", 7000, PTS, "cuLaunchKernel_ptsz");
    check_same("cuLaunchKernel", 6050, PTS, "cuLaunchKernel"); /* before there were per-thread streams */
    check_same("cuMemcpyHtoD", 3020, 0, "cuMemcpyHtoD_v2");
    check_same("cuMemcpyHtoD", 7000, PTS, "cuMemcpyHtoD_v2_ptds");
    check_same("cuMemcpyHtoDAsync", 7000, PTS, "cuMemcpyHtoDAsync_v2_ptsz");
    check_same("cuEventElapsedTime", 2000, 0, "cuEventElapsedTime");
    check_same("cuEventElapsedTime", 12080, 0, "cuEventElapsedTime_v2");
    check_same("cuStreamGetCaptureInfo", 10010, 0, "cuStreamGetCaptureInfo");
    check_same("cuStreamGetCaptureInfo", 11030, PTS, "cuStreamGetCaptureInfo_v2_ptsz");
    check_same("cuStreamGetCaptureInfo", 13000, 0, "cuStreamGetCaptureInfo_v3");
    check_same("cuCtxSynchronize", 12080, 0, "cuCtxSynchronize");
    check_same("cuCtxSynchronize", 13000, 0, "cuCtxSynchronize_v2");
    check_same("cuGetProcAddress", 11030, 0, "cuGetProcAddress");
    check_same("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2");
    check_same("cuMemPrefetchAsync", 8000, PTS, "cuMemPrefetchAsync_ptsz");
    check_same("cuMemPrefetchAsync", 12020, PTS, "cuMemPrefetchAsync_v2_ptsz");
    check_same("cuMemcpyBatchAsync", 12080, 0, "cuMemcpyBatchAsync");
    check_same("cuMemcpyBatchAsync", 12080, PTS, "cuMemcpyBatchAsync_ptsz");
    check_same("cuMemcpyBatchAsync", 13000, PTS, "cuMemcpyBatchAsync_v2_ptsz");
    check_same("cuMemcpy3DBatchAsync", 13000, 0, "cuMemcpy3DBatchAsync_v2");
    check_same("cuMemcpy3DPeer", 4000, 0, "cuMemcpy3DPeer");
    check_same("cuMemcpy3DPeer", 7000, PTS, "cuMemcpy3DPeer_ptds");
    check_same("cuMemcpy3DPeerAsync", 7000, PTS, "cuMemcpy3DPeerAsync_ptsz");
    check_same("cuStreamWaitValue32", 8000, 0, "cuStreamWaitValue32");
    check_same("cuStreamWaitValue32", 11070, PTS, "cuStreamWaitValue32_v2_ptsz");
    check_same("cuStreamWriteValue64", 9000, PTS, "cuStreamWriteValue64_ptsz");
    check_same("cuStreamWriteValue64", 13000, 0, "cuStreamWriteValue64_v2");
    check_same("cuStreamBatchMemOp", 11060, 0, "cuStreamBatchMemOp");
    check_same("cuStreamBatchMemOp", 11070, 0, "cuStreamBatchMemOp_v2");
    check_same("cuDevicePrimaryCtxReset", 7000, 0, "cuDevicePrimaryCtxReset");
    check_same("cuDevicePrimaryCtxReset", 11000, 0, "cuDevicePrimaryCtxReset_v2");
    check_same("cuGraphGetEdges", 12020, 0, "cuGraphGetEdges");
    check_same("cuGraphGetEdges", 12030, 0, "cuGraphGetEdges_v2");
    check_same("cuGraphExecKernelNodeSetParams", 12000, 0, "cuGraphExecKernelNodeSetParams_v2");
    /* Not implemented, but there. */
    check_same("cuGraphConditionalHandleCreate", 12030, 0, "cuGraphConditionalHandleCreate");
}

TEST(what_is_not_there_is_said)
{
    void *function = (void *)1;
    CUdriverProcAddressQueryResult status;
    OK(cuGetProcAddress_v2("cuNoSuchThing", &function, 13000, 0, &status));
    ck_assert_ptr_null(function);
    ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    OK(cuGetProcAddress_v2("cuLaunchKernelEx", &function, 11000, 0, &status));
    ck_assert_ptr_null(function);
    ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    OK(cuGetProcAddress_v2("cuInit", &function, 13000, 0, NULL)); /* no status wanted */
    ck_assert_ptr_nonnull(function);
    ck_assert_int_eq(cuGetProcAddress_v2("cuInit", &function, 99000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuGetProcAddress_v2("cuInit", &function, 13000, 8, NULL), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuGetProcAddress_v2(NULL, &function, 13000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuGetProcAddress_v2("cuInit", NULL, 13000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
}

TEST(nvidias_own_runtime_is_reported_once)
{
    const void *table = (void *)1;
    const CUuuid id = {{0}};
    char said[1024] = "";
    FILE *record = tmpfile();
    int before = dup(STDERR_FILENO);
    ck_assert(record != NULL && before >= 0 && dup2(fileno(record), STDERR_FILENO) >= 0);
    CUresult first = cuGetExportTable(&table, &id), second = cuGetExportTable(&table, &id);
    dup2(before, STDERR_FILENO);
    close(before);

    ck_assert_int_ne(first, CUDA_SUCCESS);
    ck_assert_int_ne(second, CUDA_SUCCESS);
    rewind(record);
    ck_assert_ptr_nonnull(fgets(said, sizeof(said), record));
    ck_assert_ptr_nonnull(strstr(said, "build it with softgpu-cc"));
    ck_assert_ptr_null(fgets(said, sizeof(said), record));
    fclose(record);
}

TEST(all_look_ups_of_the_static_runtime_resolve)
{
    FILE *list = fopen(LOOKUPS, "r");
    ck_assert_ptr_nonnull(list);
    char name[128];
    int version, count = 0;
    unsigned flags;
    while (fscanf(list, "%127s %d %u", name, &version, &flags) == 3) {
        ++count;
        if (name[0] != '"') /* the first asks for a name of no letters, and expects nothing */
            ck_assert_msg(look_up(name, version, flags) != NULL, "%s, version %d, flags %u", name, version, flags);
    }
    fclose(list);
    ck_assert_int_eq(count, 440);
}

TEST(runtime_has_every_name_of_the_real_one)
{
    FILE *list = fopen(RUNTIME_NAMES, "r");
    ck_assert_ptr_nonnull(list);
    void *runtime = dlopen("libcudart.so.13", RTLD_NOW);
    ck_assert_ptr_nonnull(runtime);
    char name[128];
    int count = 0;
    for (; fscanf(list, "%127s", name) == 1; ++count)
        ck_assert_msg(dlvsym(runtime, name, "libcudart.so.13") != NULL, "%s@libcudart.so.13", name);
    fclose(list);
    ck_assert_int_eq(count, 422);
}

TEST(stubs_refuse)
{
    cudaGraph_t graph = NULL;
    ck_assert_int_eq(cudaGraphDebugDotPrint(graph, "", 0), cudaErrorNotSupported);
    ck_assert_int_eq(cudaGetLastError(), cudaErrorNotSupported);
    ck_assert_int_eq(cuGraphDebugDotPrint(NULL, "", 0), CUDA_ERROR_NOT_SUPPORTED);
}

TEST(runtime_gives_out_the_drivers_functions)
{
    void *function;
    enum cudaDriverEntryPointQueryResult status;
    driver_library = dlopen("libcuda.so.1", RTLD_NOW);
    OK(cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 12000, cudaEnableDefault, &status));
    ck_assert_int_eq(status, cudaDriverEntryPointSuccess);
    ck_assert_ptr_eq(function, dlsym(driver_library, "cuMemAlloc_v2"));
    OK(cudaGetDriverEntryPointByVersion("cuLaunchKernel", &function, 12000, cudaEnablePerThreadDefaultStream, &status));
    ck_assert_ptr_eq(function, dlsym(driver_library, "cuLaunchKernel_ptsz"));
    OK(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &function, 12000, cudaEnableDefault, &status));
    ck_assert_int_eq(status, cudaDriverEntryPointSymbolNotFound);
}
