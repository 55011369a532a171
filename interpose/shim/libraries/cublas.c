/*
 * cublas.c - the hooks of cuBLAS, made from cublas.def, and what they ask of a handle.
 *
 * A handle's stream is asked at each call. Its workspace, where the trainer has set one, is memory that calls write: it
 * is remembered from cublasSetWorkspace, because cuBLAS has no query for it.
 */
#include "interpose/shim/libraries/words.h"

#include <sched.h>
#include <string.h>

enum { HELPER_GET_STREAM };
static const char *const helpers[LIBRARY_HELPERS] = {[HELPER_GET_STREAM] = "cublasGetStream_v2"};

/* ---- places in functions[] ---- */
#define ROW(symbol, ...)  ROW_(symbol, __VA_ARGS__)
#define ROW_(symbol, ...) INDEX_##symbol,
enum {
#include "interpose/shim/libraries/cublas.def"
    INDEX_cublasSetStream_v2,
    INDEX_cublasSetWorkspace_v2,
    INDEX_cublasDestroy_v2,
    FUNCTIONS
};
#undef ROW_

/* The header declares the calls of half precision for C++ only. Of all others it says whether the table is right. */
#define ROW_(symbol, parameters, ...) cublasStatus_t symbol parameters;
#include "interpose/shim/libraries/cublas.def"
#undef ROW_

#define ROW_(symbol, ...) {.name = #symbol, .hook = (void *)symbol},
static const struct library_function functions[FUNCTIONS] = {
#include "interpose/shim/libraries/cublas.def"
    ROW_(cublasSetStream_v2) ROW_(cublasSetWorkspace_v2) ROW_(cublasDestroy_v2)};
#undef ROW_

static struct library_reals reals[FUNCTIONS];

struct library library_cublas = {
    .file = "libcublas.so", .functions = functions, .reals = reals, .function_count = FUNCTIONS, .helpers = helpers};

/* ---- workspaces that trainers have set ---- */

enum { WORKSPACES = 64 };

static struct workspace {
    cublasHandle_t handle; /* NULL: free */
    void *address;
    size_t bytes;
} workspaces[WORKSPACES];
static _Atomic unsigned workspace_count; /* handles with one */
static _Atomic bool workspaces_lost;     /* there were more than fit: then every call may write anywhere */
static atomic_flag workspaces_held = ATOMIC_FLAG_INIT;

static void
hold_workspaces(void)
{
    while (atomic_flag_test_and_set(&workspaces_held))
        sched_yield();
}

/* bytes = 0: the handle has none of the trainer's any more. */
static void
workspace_set(cublasHandle_t handle, void *address, size_t bytes)
{
    hold_workspaces();
    struct workspace *at = NULL;
    for (unsigned i = 0; i < WORKSPACES; ++i) {
        if (workspaces[i].handle == handle || (at == NULL && workspaces[i].handle == NULL))
            at = &workspaces[i];
        if (workspaces[i].handle == handle)
            break;
    }
    if (at != NULL) {
        workspace_count += (bytes > 0) - (at->handle != NULL);
        *at = (struct workspace){bytes > 0 ? handle : NULL, address, bytes};
    } else if (bytes > 0) {
        workspaces_lost = true;
    }
    atomic_flag_clear(&workspaces_held);
}

static void
add_workspace(struct library_call *call, cublasHandle_t handle)
{
    struct workspace found = {0};
    if (atomic_load(&workspaces_lost))
        call->operation.opaque = true;
    if (atomic_load(&workspace_count) == 0)
        return;
    hold_workspaces();
    for (unsigned i = 0; i < WORKSPACES; ++i) {
        if (workspaces[i].handle == handle)
            found = workspaces[i];
    }
    atomic_flag_clear(&workspaces_held);
    library_operand(call, OPERAND_WORKSPACE, "the handle's workspace", found.address, ACCESS_WRITE,
                    extent_solid(found.bytes));
}

/* Calls after which a handle has another workspace; with a new stream it is the handle's own (documentation of
 * cublasSetStream). What is destroyed has none before: afterwards the handle may be another thread's. */
#define HANDLE_HOOK(symbol, parameters, arguments, before, after)       \
    EXPORT cublasStatus_t symbol parameters                             \
    {                                                                   \
        __typeof__(&(symbol)) real = REAL_OF(library_cublas, symbol);   \
        if (real == NULL)                                               \
            return CUBLAS_STATUS_NOT_SUPPORTED;                         \
        if (shim_is_trainers_call())                                    \
            before;                                                     \
        cublasStatus_t status = real arguments;                         \
        if (status == CUBLAS_STATUS_SUCCESS && shim_is_trainers_call()) \
            after;                                                      \
        return status;                                                  \
    }
HANDLE_HOOK(cublasSetWorkspace_v2, (cublasHandle_t handle, void *workspace, size_t bytes), (handle, workspace, bytes),
            (void)0, workspace_set(handle, workspace, workspace != NULL ? bytes : 0))
HANDLE_HOOK(cublasSetStream_v2, (cublasHandle_t handle, cudaStream_t stream), (handle, stream), (void)0,
            workspace_set(handle, NULL, 0))
HANDLE_HOOK(cublasDestroy_v2, (cublasHandle_t handle), (handle), workspace_set(handle, NULL, 0), (void)0)

/* ---- the hooks ---- */

static void
begin_cublas(struct library_call *call, cublasHandle_t handle, const void *real)
{
    void *get_stream = library_helper(&library_cublas, real, HELPER_GET_STREAM);
    cudaStream_t stream = NULL;
    bool known =
        get_stream != NULL && ((__typeof__(&cublasGetStream_v2))get_stream)(handle, &stream) == CUBLAS_STATUS_SUCCESS;
    add_workspace(call, handle);
    library_call_begin(call, known ? &stream : NULL);
}

/* Of products in groups: each array has `group_count` entries in host memory, and the pointers of all groups follow
 * one another. */
#define total_of(sizes)                                                         \
    __extension__({                                                             \
        int64_t total_ = 0;                                                     \
        for (int64_t g = 0; (sizes) != NULL && g < (int64_t)(group_count); ++g) \
            total_ += (sizes)[g];                                               \
        total_;                                                                 \
    })
#define largest(extent_of_g)                                                      \
    __extension__({                                                               \
        struct extent largest_ = {0};                                             \
        for (int64_t g = 0; arrays_are_there_ && g < (int64_t)(group_count); ++g) \
            largest_ = larger(largest_, extent_of_g);                             \
        largest_;                                                                 \
    })
#define grouped_products(a_place, b_place, c_place, a_element, b_element, c_element)                                   \
    bool arrays_are_there_ = transa_array != NULL && transb_array != NULL && m_array != NULL && n_array != NULL &&     \
                             k_array != NULL && lda_array != NULL && ldb_array != NULL && ldc_array != NULL;           \
    int64_t total = total_of(group_size);                                                                              \
    in_each(a_place, Aarray, largest(operated(transa_array[g], m_array[g], k_array[g], lda_array[g], a_element)),      \
            total) in_each(b_place, Barray,                                                                            \
                           largest(operated(transb_array[g], k_array[g], n_array[g], ldb_array[g], b_element)), total) \
        out_each(c_place, Carray, largest(matrix(m_array[g], n_array[g], ldc_array[g], c_element)), total)
#define grouped(a_element, b_element, c_element)    grouped_products(7, 9, 12, a_element, b_element, c_element)
#define grouped_ex(a_element, b_element, c_element) grouped_products(7, 10, 14, a_element, b_element, c_element)

static size_t
reach(struct extent extent)
{
    return extent.bytes == 0 ? 0 : (extent.inner_count - 1) * extent.inner_stride + extent.bytes;
}

static struct extent
larger(struct extent a, struct extent b)
{
    return reach(a) >= reach(b) ? a : b;
}

#define ROW_(symbol, parameters, arguments, ...)                                                             \
    LIBRARY_HOOK(cublasStatus_t, CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_NOT_SUPPORTED, library_cublas, symbol, \
                 parameters, arguments, begin_cublas(&call, handle, (const void *)real), __VA_ARGS__)
#include "interpose/shim/libraries/cublas.def"
