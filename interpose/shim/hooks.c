/*
 * hooks.c - the hooks of the driver, generated from hooks.def.
 *
 * Each hook: is this process the rank, and is this call the trainer's own? Then tell the engine what the call is about
 * to touch, make the call, tell the engine that it is enqueued. In every other case: a jump to the driver. The driver's
 * answer is returned unchanged.
 */
#include "interpose/shim/shim.h"

#include <string.h>

/* cuda.h gives this name to its newer version; both exist. */
#undef cuDevicePrimaryCtxReset
CUresult cuDevicePrimaryCtxReset(CUdevice device);

__thread int shim_depth;

static void
note_allocation(void)
{
    if (atomic_load_explicit(&shim.mode, memory_order_acquire) == SHIM_UNDECIDED && shim_depth == 0)
        (void)shim_become_rank(NULL);
}

static CUstream
stream_of(CUstream stream, bool per_thread)
{
    if (stream == NULL)
        return per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    return stream;
}

enum { OPERANDS_AT_MOST = 4 };

static void
add_operand(struct operation *operation, uint32_t argument, CUdeviceptr address, size_t bytes)
{
    if (operation->operand_count < OPERANDS_AT_MOST && bytes > 0)
        operation->operands[operation->operand_count++] =
            (struct operand){.argument = argument, .address = address, .bytes = bytes};
}

/* Bytes from the first to the last of `rows` rows of `width` bytes that lie `pitch` bytes apart. */
static size_t
pitched_bytes(size_t pitch, size_t width, size_t rows)
{
    return rows == 0 || width == 0 ? 0 : pitch * (rows - 1) + width;
}

static bool
is_addressable(CUmemorytype type)
{
    return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
}

/* Rows that a copy may bring from the host. `address` counts where the type says device or anything. */
static void
add_host_rows(CUmemorytype type, const void *host, CUdeviceptr address, size_t offset, size_t bytes, size_t pitch,
              size_t rows)
{
    if (type == CU_MEMORYTYPE_HOST)
        shim.engine->copied_from_host((const char *)host + offset, bytes, pitch, rows, true);
    else if (type == CU_MEMORYTYPE_UNIFIED)
        shim.engine->copied_from_host((const void *)(address + offset), bytes, pitch, rows, false);
}

static void
add_operands_2d(struct operation *operation, const CUDA_MEMCPY2D *copy)
{
    if (copy == NULL)
        return; /* the driver refuses it */
    size_t dst_offset = copy->dstY * copy->dstPitch + copy->dstXInBytes;
    size_t src_offset = copy->srcY * copy->srcPitch + copy->srcXInBytes;
    if (is_addressable(copy->dstMemoryType))
        add_operand(operation, 0, copy->dstDevice + dst_offset,
                    pitched_bytes(copy->dstPitch, copy->WidthInBytes, copy->Height));
    if (is_addressable(copy->srcMemoryType))
        add_operand(operation, 1, copy->srcDevice + src_offset,
                    pitched_bytes(copy->srcPitch, copy->WidthInBytes, copy->Height));
    add_host_rows(copy->srcMemoryType, copy->srcHost, copy->srcDevice, src_offset, copy->WidthInBytes, copy->srcPitch,
                  copy->Height);
}

static void
add_operands_3d(struct operation *operation, const CUDA_MEMCPY3D *copy)
{
    if (copy == NULL)
        return;
    size_t dst_slice = copy->dstPitch * copy->dstHeight, src_slice = copy->srcPitch * copy->srcHeight;
    size_t dst_offset = copy->dstZ * dst_slice + copy->dstY * copy->dstPitch + copy->dstXInBytes;
    size_t src_offset = copy->srcZ * src_slice + copy->srcY * copy->srcPitch + copy->srcXInBytes;
    size_t dst_rows = pitched_bytes(copy->dstPitch, copy->WidthInBytes, copy->Height);
    size_t src_rows = pitched_bytes(copy->srcPitch, copy->WidthInBytes, copy->Height);
    if (is_addressable(copy->dstMemoryType))
        add_operand(operation, 0, copy->dstDevice + dst_offset, pitched_bytes(dst_slice, dst_rows, copy->Depth));
    if (is_addressable(copy->srcMemoryType))
        add_operand(operation, 1, copy->srcDevice + src_offset, pitched_bytes(src_slice, src_rows, copy->Depth));
    for (size_t z = 0; z < copy->Depth; ++z)
        add_host_rows(copy->srcMemoryType, copy->srcHost, copy->srcDevice, src_offset + z * src_slice,
                      copy->WidthInBytes, copy->srcPitch, copy->Height);
}

/* The words of the table's `operands` column. */
#define operand(argument, address, bytes) add_operand(&operation, argument, address, bytes);
#define from_host(source, bytes)    \
    operation.host_source = source; \
    operation.host_bytes = bytes;
#define from_anywhere(source, bytes) shim.engine->copied_from_host((const void *)(source), bytes, bytes, 1, false);
#define operands_2d(copy)            add_operands_2d(&operation, copy);
#define operands_3d(copy)            add_operands_3d(&operation, copy);
#define opaque()                     operation.opaque = true;
#define kernel(function_, params_, extra_) \
    operation.function = function_;        \
    operation.params = params_;            \
    operation.extra = extra_;

/* ---- places in shim_routes[] ---- */
#define OPERATION(symbol, twin, ...)   ROUTE_##symbol, ROUTE_##symbol##twin,
#define LAUNCH(symbol, twin, ...)      ROUTE_##symbol, ROUTE_##symbol##twin,
#define ALLOCATION(symbol, twin, ...)  ROUTE_##symbol, ROUTE_##symbol##twin,
#define RELEASE(symbol, twin, ...)     ROUTE_##symbol, ROUTE_##symbol##twin,
#define ALLOCATION_SINGLE(symbol, ...) ROUTE_##symbol,
#define RELEASE_SINGLE(symbol, ...)    ROUTE_##symbol,
#define NOTIFICATION(symbol, ...)      ROUTE_##symbol,
enum {
#include "interpose/shim/hooks.def"
    ROUTE_COUNT
};
#undef OPERATION
#undef LAUNCH
#undef ALLOCATION
#undef RELEASE
#undef ALLOCATION_SINGLE
#undef RELEASE_SINGLE
#undef NOTIFICATION

/* ---- the hooks ---- */

/* The driver's own function behind hook `fn`, typed. */
#define REAL(fn) ((__typeof__(&(fn)))shim_route_real(ROUTE_##fn))

#define DEFINE_OPERATION(fn, per_thread, may_begin, parameters, arguments, stream_, operands_)                 \
    __attribute__((visibility("default"))) CUresult fn parameters                                              \
    {                                                                                                          \
        if (may_begin)                                                                                         \
            note_allocation();                                                                                 \
        if (REAL(fn) == NULL)                                                                                  \
            return CUDA_ERROR_NOT_FOUND;                                                                       \
        if (!shim_is_watched())                                                                                \
            return REAL(fn) arguments;                                                                         \
                                                                                                               \
        struct operand few[OPERANDS_AT_MOST];                                                                  \
        struct operation operation = {.name = #fn, .stream = stream_of(stream_, per_thread), .operands = few}; \
        operands_;                                                                                             \
        ++shim_depth;                                                                                          \
        shim.engine->begin(&operation);                                                                        \
        CUresult result = REAL(fn) arguments;                                                                  \
        shim.engine->end(&operation, result == CUDA_SUCCESS);                                                  \
        --shim_depth;                                                                                          \
        return result;                                                                                         \
    }

#define DEFINE_ALLOCATION(fn, parameters, arguments, memory)      \
    __attribute__((visibility("default"))) CUresult fn parameters \
    {                                                             \
        note_allocation();                                        \
        if (REAL(fn) == NULL)                                     \
            return CUDA_ERROR_NOT_FOUND;                          \
        CUresult result = REAL(fn) arguments;                     \
        if (result == CUDA_SUCCESS && shim_is_watched())          \
            shim.engine->allocated memory;                        \
        return result;                                            \
    }

/* The engine hears of it first: afterwards the address or handle may belong to something else. */
#define DEFINE_NOTIFICATION(fn, parameters, arguments, told)                 \
    __attribute__((visibility("default"))) CUresult fn parameters            \
    {                                                                        \
        if (shim_is_trainers_call()) {                                       \
            ++shim_depth;                                                    \
            shim.engine->told;                                               \
            --shim_depth;                                                    \
        }                                                                    \
        return REAL(fn) != NULL ? REAL(fn) arguments : CUDA_ERROR_NOT_FOUND; \
    }

#define OPERATION(symbol, twin, name, version, twin_version, parameters, arguments, stream_, operands_) \
    extern __typeof__(symbol) symbol##twin;                                                             \
    DEFINE_OPERATION(symbol, false, false, parameters, arguments, stream_, operands_)                   \
    DEFINE_OPERATION(symbol##twin, true, false, parameters, arguments, stream_, operands_)
#define LAUNCH(symbol, twin, name, version, twin_version, parameters, arguments, stream_, operands_) \
    extern __typeof__(symbol) symbol##twin;                                                          \
    DEFINE_OPERATION(symbol, false, true, parameters, arguments, stream_, operands_)                 \
    DEFINE_OPERATION(symbol##twin, true, true, parameters, arguments, stream_, operands_)
#define ALLOCATION_SINGLE(symbol, name, version, parameters, arguments, memory) \
    DEFINE_ALLOCATION(symbol, parameters, arguments, memory)
#define ALLOCATION(symbol, twin, name, version, twin_version, parameters, arguments, memory) \
    extern __typeof__(symbol) symbol##twin;                                                  \
    DEFINE_ALLOCATION(symbol, parameters, arguments, memory)                                 \
    DEFINE_ALLOCATION(symbol##twin, parameters, arguments, memory)
#define RELEASE_SINGLE(symbol, name, version, parameters, arguments, address) \
    DEFINE_NOTIFICATION(symbol, parameters, arguments, before_free(address))
#define RELEASE(symbol, twin, name, version, twin_version, parameters, arguments, address) \
    extern __typeof__(symbol) symbol##twin;                                                \
    DEFINE_NOTIFICATION(symbol, parameters, arguments, before_free(address))               \
    DEFINE_NOTIFICATION(symbol##twin, parameters, arguments, before_free(address))
#define NOTIFICATION(symbol, name, version, parameters, arguments, told) \
    DEFINE_NOTIFICATION(symbol, parameters, arguments, told)
#include "interpose/shim/hooks.def"
#undef OPERATION
#undef LAUNCH
#undef ALLOCATION
#undef RELEASE
#undef ALLOCATION_SINGLE
#undef RELEASE_SINGLE
#undef NOTIFICATION

/* ---- the routing table ---- */
#define PLAIN(symbol_, name_, version_) \
    {.symbol = #symbol_, .name = name_, .version = version_, .flags = 0, .hook = (void *)symbol_},
#define TWIN(symbol_, name_, version_)                       \
    {.symbol = #symbol_,                                     \
     .name = name_,                                          \
     .version = version_,                                    \
     .flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, \
     .hook = (void *)symbol_},
#define OPERATION(symbol, twin, name, version, twin_version, ...) \
    PLAIN(symbol, name, version) TWIN(symbol##twin, name, twin_version)
#define LAUNCH(symbol, twin, name, version, twin_version, ...) \
    PLAIN(symbol, name, version) TWIN(symbol##twin, name, twin_version)
#define ALLOCATION(symbol, twin, name, version, twin_version, ...) \
    PLAIN(symbol, name, version) TWIN(symbol##twin, name, twin_version)
#define RELEASE(symbol, twin, name, version, twin_version, ...) \
    PLAIN(symbol, name, version) TWIN(symbol##twin, name, twin_version)
#define ALLOCATION_SINGLE(symbol, name, version, ...) PLAIN(symbol, name, version)
#define RELEASE_SINGLE(symbol, name, version, ...)    PLAIN(symbol, name, version)
#define NOTIFICATION(symbol, name, version, ...)      PLAIN(symbol, name, version)
struct route shim_routes[] = {
#include "interpose/shim/hooks.def"
};
const unsigned shim_route_count = ROUTE_COUNT;
