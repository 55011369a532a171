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

/* Of products in groups: the pointers of all groups follow one another; the sizes of groups lie in host memory. */
#define products_in_groups                                                         \
    __extension__({                                                                \
        int64_t total_ = 0;                                                        \
        for (int64_t g = 0; group_size != NULL && g < (int64_t)(group_count); ++g) \
            total_ += group_size[g];                                               \
        total_;                                                                    \
    })

#define ROW_(symbol, parameters, arguments, ...)                                                             \
    LIBRARY_HOOK(cublasStatus_t, CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_NOT_SUPPORTED, library_cublas, symbol, \
                 parameters, arguments, begin_cublas(&call, handle, (const void *)real), __VA_ARGS__)
#include "interpose/shim/libraries/cublas.def"
