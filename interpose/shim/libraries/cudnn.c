/*
 * cudnn.c - the hooks of cuDNN, made from cudnn.def, and what they ask of handles and descriptors.
 *
 * cuDNN is many libraries, any of which may hold the real function; the helpers are looked for in what that one was
 * linked with. Numbers of attributes are those of the cuDNN documentation (cudnnBackendAttributeName_t and
 * cudnnBackendAttributeType_t), which versions 8 and 9 share.
 */
#include "interpose/shim/libraries/words.h"

enum { SUCCESS = 0, NOT_SUPPORTED_BEFORE_9 = 9 }; /* cudnnStatus_t; the latter is an error in version 9 as well */
enum { VARIANT_PACK_DATA_POINTERS = 1001, VARIANT_PACK_WORKSPACE = 1003, EXECUTION_PLAN_WORKSPACE_SIZE = 402 };
enum { TYPE_INT64 = 3, TYPE_VOID_PTR = 6 };

enum { HELPER_GET_STREAM, HELPER_TENSOR_BYTES, HELPER_FILTER_BYTES, HELPER_BACKEND_GET };
static const char *const helpers[LIBRARY_HELPERS] = {[HELPER_GET_STREAM] = "cudnnGetStream",
                                                     [HELPER_TENSOR_BYTES] = "cudnnGetTensorSizeInBytes",
                                                     [HELPER_FILTER_BYTES] = "cudnnGetFilterSizeInBytes",
                                                     [HELPER_BACKEND_GET] = "cudnnBackendGetAttribute"};
typedef int (*get_stream_fn)(void *handle, CUstream *stream);
typedef int (*get_bytes_fn)(const void *descriptor, size_t *bytes);
typedef int (*backend_get_fn)(void *descriptor, int attribute, int type, int64_t asked, int64_t *count, void *values);

#define ROW(symbol, ...) INDEX_##symbol,
enum {
#include "interpose/shim/libraries/cudnn.def"
    FUNCTIONS
};
#undef ROW
#define ROW(symbol, parameters, ...) int symbol parameters;
#include "interpose/shim/libraries/cudnn.def"
#undef ROW
#define ROW(symbol, ...) {.name = #symbol, .hook = (void *)symbol},
static const struct library_function functions[FUNCTIONS] = {
#include "interpose/shim/libraries/cudnn.def"
};
#undef ROW
static struct library_reals reals[FUNCTIONS];

struct library library_cudnn = {
    .file = "libcudnn", .functions = functions, .reals = reals, .function_count = FUNCTIONS, .helpers = helpers};

static struct extent
described_bytes(const void *real, unsigned helper, const void *descriptor)
{
    get_bytes_fn get = (get_bytes_fn)library_helper(&library_cudnn, real, helper);
    size_t bytes = 0;
    if (descriptor == NULL)
        return extent_solid(0); /* the library refuses it, or has no use for the operand */
    if (get == NULL || get(descriptor, &bytes) != SUCCESS)
        return extent_solid(1);
    return extent_solid(bytes);
}

/*
 * The pointers of a variant pack, each by itself: whether it is written, and how far, is known to the plan only.
 * Returns false when they cannot be had: then the kernels tell more than the call.
 */
static bool
add_packed_pointers(struct library_call *call, const void *real, void *plan, void *pack)
{
    backend_get_fn get = (backend_get_fn)library_helper(&library_cudnn, real, HELPER_BACKEND_GET);
    const void *pointers[LIBRARY_OPERANDS] = {NULL}, *workspace = NULL;
    int64_t count = 0, bytes = 0, one = 0;
    if (get == NULL || plan == NULL || pack == NULL ||
        get(pack, VARIANT_PACK_DATA_POINTERS, TYPE_VOID_PTR, LIBRARY_OPERANDS, &count, pointers) != SUCCESS)
        return false;
    if (count > LIBRARY_OPERANDS)
        return false;
    for (int64_t i = 0; i < count; ++i)
        library_operand(call, OPERAND_DESCRIBED + (uint32_t)i, "tensor of the variant pack", pointers[i],
                        ACCESS_UNKNOWN, extent_solid(1));
    if (get(pack, VARIANT_PACK_WORKSPACE, TYPE_VOID_PTR, 1, &one, &workspace) == SUCCESS && one == 1) {
        if (get(plan, EXECUTION_PLAN_WORKSPACE_SIZE, TYPE_INT64, 1, &one, &bytes) != SUCCESS || bytes < 1)
            bytes = 1;
        library_operand(call, OPERAND_WORKSPACE, "workspace", workspace, ACCESS_WRITE, extent_solid((size_t)bytes));
    }
    return true;
}

#define tensor(descriptor) described_bytes((const void *)real, HELPER_TENSOR_BYTES, descriptor)
#define filter(descriptor) described_bytes((const void *)real, HELPER_FILTER_BYTES, descriptor)
#define pointed            extent_solid(1)
#define packed_pointers(plan, pack)                                  \
    if (!add_packed_pointers(&call, (const void *)real, plan, pack)) \
        return real(handle, plan, pack);

static void
begin_cudnn(struct library_call *call, void *handle, const void *real)
{
    get_stream_fn get_stream = (get_stream_fn)library_helper(&library_cudnn, real, HELPER_GET_STREAM);
    CUstream stream = NULL;
    bool known = get_stream != NULL && get_stream(handle, &stream) == SUCCESS;
    library_call_begin(call, known ? &stream : NULL);
}

#define ROW(symbol, parameters, arguments, ...)                                                      \
    LIBRARY_HOOK(int, SUCCESS, NOT_SUPPORTED_BEFORE_9, library_cudnn, symbol, parameters, arguments, \
                 begin_cudnn(&call, handle, (const void *)real), __VA_ARGS__)
#include "interpose/shim/libraries/cudnn.def"
