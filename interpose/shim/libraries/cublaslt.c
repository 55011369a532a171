/*
 * cublaslt.c - the hooks of cuBLASLt.
 *
 * A product's matrices are described by layouts, and what else it reads and writes (a bias, its gradient, an auxiliary
 * matrix, scales) by its descriptor: both are asked of the same copy of the library. What cannot be asked, or is newer
 * than this file, makes the call opaque. Source: the comments of cublasLt.h and the cuBLASLt documentation.
 */
#include "interpose/shim/libraries/words.h"

#include <cublasLt.h>

#define ROW(symbol, ...) INDEX_##symbol,
enum {
#include "interpose/shim/libraries/cublaslt.def"
    FUNCTIONS
};
#undef ROW
#define ROW(symbol, ...) {.name = #symbol, .hook = (void *)symbol},
static const struct library_function functions[FUNCTIONS] = {
#include "interpose/shim/libraries/cublaslt.def"
};
#undef ROW
static struct library_reals reals[FUNCTIONS];

/* Newer than the headers of CUDA 12.4. */
enum { LAYOUT_BATCH_MODE = 8, BATCH_STRIDED = 0, BATCH_POINTERS = 1, DESC_D_OUT_SCALE = 36 };

enum { HELPER_LAYOUT_GET, HELPER_MATMUL_GET, HELPER_TRANSFORM_GET };
static const char *const helpers[LIBRARY_HELPERS] = {[HELPER_LAYOUT_GET] = "cublasLtMatrixLayoutGetAttribute",
                                                     [HELPER_MATMUL_GET] = "cublasLtMatmulDescGetAttribute",
                                                     [HELPER_TRANSFORM_GET] =
                                                         "cublasLtMatrixTransformDescGetAttribute"};

struct library library_cublaslt = {
    .file = "libcublasLt.so", .functions = functions, .reals = reals, .function_count = FUNCTIONS, .helpers = helpers};

/* All three functions look alike: (descriptor, attribute, buffer, its size, size written). */
typedef cublasStatus_t (*get_fn)(const void *, int, void *, size_t, size_t *);

/* One descriptor, and how to ask it. */
struct descriptor {
    get_fn get;
    const void *handle;
};

static struct descriptor
descriptor_of(const void *real, unsigned helper, const void *handle)
{
    void *get = library_helper(&library_cublaslt, real, helper);
    return (struct descriptor){(get_fn)get, handle};
}

/* Returns false, and leaves *value alone, where the library does not know the attribute. */
static bool
get_bytes(const struct descriptor *descriptor, int attribute, void *value, size_t bytes)
{
    unsigned char copy[8] = {0};
    size_t written = 0;
    if (descriptor->get == NULL || descriptor->handle == NULL || bytes > sizeof(copy) ||
        descriptor->get(descriptor->handle, attribute, copy, bytes, &written) != CUBLAS_STATUS_SUCCESS)
        return false;
    __builtin_memcpy(value, copy, bytes);
    return true;
}

#define GET(descriptor, attribute, value_p) get_bytes(descriptor, attribute, value_p, sizeof(*(value_p)))

/* ---- layouts ---- */

struct layout {
    int32_t type, order, batch_count;
    uint32_t batch_mode;
    uint64_t rows, columns;
    int64_t ld, batch_stride, plane_offset;
};

static bool
layout_get(const struct descriptor *of, struct layout *layout)
{
    *layout = (struct layout){.batch_mode = BATCH_STRIDED};
    (void)GET(of, LAYOUT_BATCH_MODE, &layout->batch_mode);                     /* newer than the rest */
    (void)GET(of, CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, &layout->plane_offset); /* newer than some */
    bool has_shape =
        GET(of, CUBLASLT_MATRIX_LAYOUT_TYPE, &layout->type) && GET(of, CUBLASLT_MATRIX_LAYOUT_ORDER, &layout->order) &&
        GET(of, CUBLASLT_MATRIX_LAYOUT_ROWS, &layout->rows) && GET(of, CUBLASLT_MATRIX_LAYOUT_COLS, &layout->columns);
    return has_shape && GET(of, CUBLASLT_MATRIX_LAYOUT_LD, &layout->ld) &&
           GET(of, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &layout->batch_count) &&
           GET(of, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &layout->batch_stride);
}

/* n elements of so many bits, in bytes. */
static size_t
bytes_of_elements(uint64_t n, unsigned bits)
{
    return (size_t)((n * bits + 7) / 8);
}

static uint64_t
rounded(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* One matrix of the layout. False where its order is unknown. */
static bool
layout_extent(const struct layout *layout, unsigned bits, struct extent *extent)
{
    uint64_t runs = layout->columns, length = layout->rows; /* `runs` times `length` elements, ld apart */
    switch (layout->order) {
    case CUBLASLT_ORDER_COL:
        break;
    case CUBLASLT_ORDER_ROW:
        runs = layout->rows;
        length = layout->columns;
        break;
    case CUBLASLT_ORDER_COL32:
        runs = rounded(layout->columns, 32) / 32;
        length = 32 * layout->rows;
        break;
    case CUBLASLT_ORDER_COL4_4R2_8C:
        runs = rounded(layout->columns, 32) / 32;
        length = 32 * rounded(layout->rows, 8);
        break;
    case CUBLASLT_ORDER_COL32_2R_4R4:
        runs = rounded(layout->columns, 32) / 32;
        length = 32 * rounded(layout->rows, 32);
        break;
    default:
        return false;
    }
    *extent = runs == 0 || length == 0 ? (struct extent){0}
                                       : (struct extent){bytes_of_elements(length, bits), runs,
                                                         bytes_of_elements((uint64_t)layout->ld, bits), 1, 0};
    return true;
}

/* Adds the matrix at `pointer`, or the batch of them. */
static void
add_matrix(struct library_call *call, const void *real, uint32_t argument, const char *name, const void *pointer,
           const void *handle, enum operand_access access)
{
    struct descriptor of = descriptor_of(real, HELPER_LAYOUT_GET, handle);
    struct layout layout;
    struct extent extent;
    if (pointer == NULL || handle == NULL)
        return; /* the library refuses it */
    unsigned bits = 0;
    if (layout_get(&of, &layout))
        bits = type_bits((cudaDataType)layout.type);
    if (layout.plane_offset != 0)
        bits /= 2; /* the real parts by themselves, and elsewhere the imaginary parts */
    if (bits == 0 || !layout_extent(&layout, bits, &extent)) {
        call->operation.opaque = true;
        return;
    }
    call->type = type_of_floats((cudaDataType)layout.type);
    if (layout.batch_mode == BATCH_POINTERS) {
        library_operand_each(call, argument, name, pointer, access, layout.batch_count);
        return;
    }
    if (layout.batch_mode != BATCH_STRIDED)
        call->operation.opaque = true;
    if (layout.batch_count > 1 && extent.bytes > 0) {
        extent.outer_count = (size_t)layout.batch_count;
        extent.outer_stride = layout.batch_stride * (int64_t)bits / 8;
    }
    library_operand(call, argument, name, pointer, access, extent);
    if (layout.plane_offset != 0)
        library_operand(call, argument, name, (const char *)pointer + layout.plane_offset, access, extent);
}

/* ---- what a product's descriptor names ---- */

enum {
    EPILOGUE_BIAS = CUBLASLT_EPILOGUE_BIAS,
    EPILOGUE_GRADIENT_OF_ACTIVATION = 8 | 64, /* DRELU, DGELU: they read the auxiliary matrix */
    EPILOGUE_BIAS_GRADIENT = 16 | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB,
    EPILOGUE_RELU = CUBLASLT_EPILOGUE_RELU | 8, /* RELU, DRELU: the auxiliary matrix is a mask of bits */
    EPILOGUE_AUXILIARY = 128,
    EPILOGUE_KNOWN = CUBLASLT_EPILOGUE_DEFAULT | CUBLASLT_EPILOGUE_RELU | CUBLASLT_EPILOGUE_GELU | EPILOGUE_BIAS |
                     EPILOGUE_GRADIENT_OF_ACTIVATION | EPILOGUE_BIAS_GRADIENT | EPILOGUE_AUXILIARY,
};

static const void *
get_pointer(const struct descriptor *of, int attribute)
{
    const void *pointer = NULL;
    (void)GET(of, attribute, &pointer);
    return pointer;
}

/* The type of a bias that does not say its own. */
static unsigned
bits_of_bias(cudaDataType output)
{
    if (output == CUDA_R_8I)
        return 32;
    return type_bits(output) == 8 ? 16 : type_bits(output);
}

static void
add_bias(struct library_call *call, const struct descriptor *of, uint32_t epilogue, const struct layout *output)
{
    int32_t type = -1;
    int64_t stride = 0;
    (void)GET(of, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type);
    (void)GET(of, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, &stride);
    bool has_type = type != -1;
    if (!has_type)
        type = output->type;
    unsigned bits = has_type ? type_bits((cudaDataType)type) : bits_of_bias((cudaDataType)type);
    uint64_t count = (epilogue & CUBLASLT_EPILOGUE_BGRADB) != 0 ? output->columns : output->rows;
    struct extent extent =
        extent_batch(extent_solid(bytes_of_elements(count, bits)), stride, output->batch_count, bits / 8);
    bool writes = (epilogue & EPILOGUE_BIAS_GRADIENT) != 0;
    bool is_of_type = has_type || bits == type_bits((cudaDataType)type);
    call->type = is_of_type ? type_of_floats((cudaDataType)type) : 0;
    library_operand(call, OPERAND_DESCRIBED + CUBLASLT_MATMUL_DESC_BIAS_POINTER, writes ? "bias gradient" : "bias",
                    get_pointer(of, CUBLASLT_MATMUL_DESC_BIAS_POINTER), writes ? ACCESS_WRITE : ACCESS_READ, extent);
}

static void
add_auxiliary(struct library_call *call, const struct descriptor *of, uint32_t epilogue, const struct layout *output)
{
    int32_t type = -1;
    int64_t ld = 0, stride = 0;
    (void)GET(of, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, &type);
    if (type == -1)
        type = output->type;
    (void)GET(of, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld);
    (void)GET(of, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, &stride);
    bool mask = (epilogue & EPILOGUE_RELU) != 0;
    unsigned bits = mask ? 1 : type_bits((cudaDataType)type);
    /* A mask may be written in whole words: up to the end of each column's share. */
    uint64_t length = mask ? (uint64_t)ld : output->rows;
    struct extent extent = {bytes_of_elements(length, bits), output->columns, bytes_of_elements((uint64_t)ld, bits), 1,
                            0};
    if (output->columns == 0 || length == 0)
        return;
    if (output->batch_count > 1) {
        extent.outer_count = (size_t)output->batch_count;
        extent.outer_stride = stride * (int64_t)bits / 8;
    }
    bool writes = (epilogue & EPILOGUE_GRADIENT_OF_ACTIVATION) == 0;
    library_operand(call, OPERAND_DESCRIBED + CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, "auxiliary matrix",
                    get_pointer(of, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER), writes ? ACCESS_WRITE : ACCESS_READ,
                    extent);
}

static void
add_epilogue(struct library_call *call, const struct descriptor *of, const struct layout *output)
{
    uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    if (!GET(of, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue) || (epilogue & ~(uint32_t)EPILOGUE_KNOWN) != 0)
        call->operation.opaque = true;
    if ((epilogue & (EPILOGUE_BIAS | EPILOGUE_BIAS_GRADIENT)) != 0)
        add_bias(call, of, epilogue, output);
    if ((epilogue & EPILOGUE_AUXILIARY) != 0)
        add_auxiliary(call, of, epilogue, output);
}

/* Scales and largest values, single numbers of four bytes; of scales in blocks only the pointer is known. */
static void
add_scales(struct library_call *call, const struct descriptor *of)
{
    static const struct {
        int attribute;
        enum operand_access access;
        const char *name;
    } single[] = {
        {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, ACCESS_READ, "scale of A"},
        {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, ACCESS_READ, "scale of B"},
        {CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, ACCESS_READ, "scale of C"},
        {CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, ACCESS_READ, "scale of D"},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER, ACCESS_READ, "scale of the auxiliary matrix"},
        {CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, ACCESS_WRITE, "largest value of D"},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER, ACCESS_WRITE, "largest value of the auxiliary matrix"},
        {DESC_D_OUT_SCALE, ACCESS_WRITE, "scales that D is given"},
    };
    for (size_t i = 0; i < sizeof(single) / sizeof(single[0]); ++i)
        library_operand(call, OPERAND_DESCRIBED + (uint32_t)single[i].attribute, single[i].name,
                        get_pointer(of, single[i].attribute), single[i].access, extent_solid(sizeof(float)));
}

/* One scalar, or one for each row of D. */
static void
add_scalar(struct library_call *call, uint32_t argument, const char *name, const void *pointer, bool is_vector,
           size_t bytes, int64_t batch_stride, const struct layout *output)
{
    struct extent extent = extent_solid(is_vector ? bytes * output->rows : bytes);
    if (is_vector && output->batch_count > 1)
        extent = extent_batch(extent, batch_stride, output->batch_count, bytes);
    library_operand(call, argument, name, pointer, ACCESS_READ, extent);
}

static void
add_described(struct library_call *call, const void *real, const void *handle, const void *alpha, uint32_t alpha_place,
              const void *beta, uint32_t beta_place, const void *output_handle)
{
    struct descriptor of = descriptor_of(real, HELPER_MATMUL_GET, handle);
    struct descriptor output_of = descriptor_of(real, HELPER_LAYOUT_GET, output_handle);
    struct layout output;
    if (handle == NULL || output_handle == NULL)
        return; /* the library refuses it */
    if (!layout_get(&output_of, &output)) {
        call->operation.opaque = true;
        return;
    }
    int32_t mode = CUBLASLT_POINTER_MODE_HOST, type = CUDA_R_32F;
    int64_t stride = 0;
    (void)GET(&of, CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE, &stride);
    if (!GET(&of, CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode) || !GET(&of, CUBLASLT_MATMUL_DESC_SCALE_TYPE, &type))
        call->operation.opaque = true;
    size_t bytes = cuda_type_bytes((cudaDataType)type);
    add_scalar(call, alpha_place, "alpha", alpha, mode >= CUBLASLT_POINTER_MODE_DEVICE_VECTOR, bytes, stride, &output);
    add_scalar(call, beta_place, "beta", beta, mode == CUBLASLT_POINTER_MODE_DEVICE_VECTOR, bytes, stride, &output);
    add_epilogue(call, &of, &output);
    add_scales(call, &of);
}

static size_t
transform_scalar_bytes(const void *real, const void *handle)
{
    struct descriptor of = descriptor_of(real, HELPER_TRANSFORM_GET, handle);
    int32_t type = CUDA_R_64F; /* no smaller than what it can be */
    (void)GET(&of, CUBLASLT_MATRIX_TRANSFORM_DESC_SCALE_TYPE, &type);
    return cuda_type_bytes((cudaDataType)type);
}

/* ---- the hooks ---- */

#define laid_out(place, parameter, layout, access) \
    add_matrix(&call, (const void *)real, place, #parameter, parameter, layout, access);
#define described(descriptor, alpha, alpha_place, beta, beta_place, output) \
    add_described(&call, (const void *)real, descriptor, alpha, alpha_place, beta, beta_place, output);
#define scalar_of_transform transform_scalar_bytes((const void *)real, transformDesc)

#define ROW(symbol, parameters, arguments, ...)                                                                \
    LIBRARY_HOOK(cublasStatus_t, CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_NOT_SUPPORTED, library_cublaslt, symbol, \
                 parameters, arguments, library_call_begin(&call, &stream), __VA_ARGS__)
#include "interpose/shim/libraries/cublaslt.def"
