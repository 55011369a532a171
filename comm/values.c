/* values.c - see values.h. */
#include "comm/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- without kernels: values come to the host, a piece at a time ---- */

enum { PIECE_BYTES = 1 << 20 };

struct host {
    const struct driver *driver;
    CUstream stream;
    size_t element_bytes;
    enum kernel_type type;
    unsigned char *mine, *theirs; /* [PIECE_BYTES] each */
    double *value, *apart;        /* of a sample: [PIECE_BYTES / element_bytes] each */
};

static double
widen_float16(uint16_t bits)
{
    enum { FRACTION_BITS = 10, SPECIAL = 31, BIAS = 15 };
    int exponent = bits >> FRACTION_BITS & SPECIAL, fraction = bits & ((1 << FRACTION_BITS) - 1);
    double size;
    if (exponent == SPECIAL)
        size = fraction != 0 ? NAN : INFINITY;
    else if (exponent == 0)
        size = ldexp(fraction, 1 - BIAS - FRACTION_BITS);
    else
        size = ldexp(fraction + (1 << FRACTION_BITS), exponent - BIAS - FRACTION_BITS);
    return bits >> 15 != 0 ? -size : size;
}

static double
widen(enum kernel_type type, const unsigned char *at)
{
    float narrow;
    double wide;
    uint16_t half;
    uint32_t bits;
    switch (type) {
    case KERNEL_FLOAT64:
        memcpy(&wide, at, sizeof(wide));
        return wide;
    case KERNEL_FLOAT32:
        memcpy(&narrow, at, sizeof(narrow));
        return (double)narrow;
    case KERNEL_FLOAT16:
        memcpy(&half, at, sizeof(half));
        return widen_float16(half);
    default: /* bfloat16 is the upper half of a float */
        memcpy(&half, at, sizeof(half));
        bits = (uint32_t)half << 16;
        memcpy(&narrow, &bits, sizeof(narrow));
        return (double)narrow;
    }
}

/* Copies from pageable memory may wait: some stream of the trainer may be captured. *mode_p: for host_close(). */
static bool
host_open(struct host *host, const struct wire_setting *setting, ncclDataType_t type, CUstream stream,
          CUstreamCaptureMode *mode_p)
{
    *host = (struct host){.driver = setting->driver,
                          .stream = stream,
                          .element_bytes = wire_element_bytes(type),
                          .type = wire_kernel_type(type)};
    size_t elements = PIECE_BYTES / host->element_bytes;
    unsigned char *memory = malloc(2 * (size_t)PIECE_BYTES + 2 * elements * sizeof(double));
    if (memory == NULL)
        return false;
    host->value = (double *)memory;
    host->apart = host->value + elements;
    host->mine = (unsigned char *)(host->apart + elements);
    host->theirs = host->mine + PIECE_BYTES;
    *mode_p = CU_STREAM_CAPTURE_MODE_RELAXED;
    (void)host->driver->cuThreadExchangeStreamCaptureMode_p(mode_p);
    return true;
}

static void
host_close(struct host *host, CUstreamCaptureMode mode)
{
    (void)host->driver->cuThreadExchangeStreamCaptureMode_p(&mode);
    free(host->value);
}

/* Both sides of elements [at, at + count) of the chunk; they are there when it returns. */
static CUresult
fetch(struct host *host, const struct values_chunk *chunk, uint64_t at, uint64_t count)
{
    const struct driver *driver = host->driver;
    uint64_t offset = at * host->element_bytes, bytes = count * host->element_bytes;
    CUresult result = driver->cuMemcpyDtoHAsync_p(host->mine, chunk->mine + offset, bytes, host->stream);
    bool is_own = chunk->theirs == chunk->mine;
    if (result == CUDA_SUCCESS && !is_own)
        result = driver->cuMemcpyDtoHAsync_p(host->theirs, chunk->theirs + offset, bytes, host->stream);
    if (result == CUDA_SUCCESS)
        result = driver->cuStreamSynchronize_p(host->stream);
    if (result == CUDA_SUCCESS && is_own)
        memcpy(host->theirs, host->mine, bytes);
    return result;
}

static uint64_t
float_bits(double value)
{
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof(bits));
    return bits;
}

static void
compare_piece(const struct host *host, uint64_t first, uint64_t count, struct values_found *found)
{
    for (uint64_t i = 0; i < count; ++i) {
        double a = widen(host->type, host->mine + i * host->element_bytes);
        double b = widen(host->type, host->theirs + i * host->element_bytes), d = fabs(a - b);
        if (isfinite(a) && float_bits(fabs(a)) > found->greatest)
            found->greatest = float_bits(fabs(a));
        found->unlike += isfinite(a) != isfinite(b);
        if (!isfinite(d) || d == 0)
            continue;
        uint64_t key = float_bits(d) << 32 | ((first + i) & UINT32_MAX);
        found->largest = key > found->largest ? key : found->largest;
        ++found->differing;
    }
}

static CUresult
compare_on_host(struct host *host, const struct values_chunk *chunk, CUdeviceptr found_p)
{
    const struct driver *driver = host->driver;
    struct values_found found;
    uint64_t each = PIECE_BYTES / host->element_bytes;
    CUresult result = driver->cuMemcpyDtoHAsync_p(&found, found_p, sizeof(found), host->stream);
    for (uint64_t at = 0; at < chunk->count && result == CUDA_SUCCESS; at += each) {
        uint64_t count = chunk->count - at < each ? chunk->count - at : each;
        result = fetch(host, chunk, at, count);
        if (result == CUDA_SUCCESS)
            compare_piece(host, chunk->first + at, count, &found);
    }
    if (result == CUDA_SUCCESS)
        result =
            driver->cuMemcpyDtoDAsync_p(chunk->mine, chunk->theirs, chunk->count * host->element_bytes, host->stream);
    if (result == CUDA_SUCCESS)
        result = driver->cuMemcpyHtoDAsync_p(found_p, &found, sizeof(found), host->stream);
    return result == CUDA_SUCCESS ? driver->cuStreamSynchronize_p(host->stream) : result;
}

/* Values [count] of a sample, from its place `at` on, go to its arrays. */
static CUresult
store(struct host *host, const struct values_sample *sample, uint64_t at, uint64_t count)
{
    const struct driver *driver = host->driver;
    size_t offset = at * sizeof(double), bytes = count * sizeof(double);
    CUresult result = driver->cuMemcpyHtoDAsync_p(sample->value + offset, host->value, bytes, host->stream);
    if (result == CUDA_SUCCESS && sample->apart != 0)
        result = driver->cuMemcpyHtoDAsync_p(sample->apart + offset, host->apart, bytes, host->stream);
    return result == CUDA_SUCCESS ? driver->cuStreamSynchronize_p(host->stream) : result;
}

/* Element `inside` of the piece becomes number `i` of what is stored next. */
static void
take_element(struct host *host, const struct values_sample *sample, uint64_t inside, uint64_t i)
{
    double a = widen(host->type, host->mine + inside * host->element_bytes);
    double b = widen(host->type, host->theirs + inside * host->element_bytes);
    host->value[i] = sample->of_zero != 0 ? b : a;
    host->apart[i] = a - b;
}

/* The piece holds elements [first, first + count) of the tensor. Those of the sample among them stand in a row in it.
 */
static CUresult
sample_piece(struct host *host, const struct values_sample *sample, uint64_t first, uint64_t count)
{
    CUresult result = CUDA_SUCCESS;
    uint64_t from = 0, taken = 0;
    for (uint64_t i = first * sample->count / sample->elements; i < sample->count; ++i) {
        uint64_t element = values_sampled_element(sample, i);
        if (element >= first + count)
            break;
        if (element < first)
            continue;
        from = taken == 0 ? i : from;
        take_element(host, sample, element - first, taken++);
    }
    if (taken > 0)
        result = store(host, sample, from, taken);
    for (uint64_t i = 0; i < sample->marked && result == CUDA_SUCCESS; ++i) {
        if (sample->marks[i] < first || sample->marks[i] >= first + count)
            continue;
        take_element(host, sample, sample->marks[i] - first, 0);
        result = store(host, sample, sample->count + i, 1);
    }
    return result;
}

static CUresult
sample_on_host(struct host *host, const struct values_chunk *chunk, const struct values_sample *sample)
{
    CUresult result = CUDA_SUCCESS;
    uint64_t each = PIECE_BYTES / host->element_bytes;
    for (uint64_t at = 0; at < chunk->count && result == CUDA_SUCCESS; at += each) {
        uint64_t count = chunk->count - at < each ? chunk->count - at : each;
        result = fetch(host, chunk, at, count);
        if (result == CUDA_SUCCESS)
            result = sample_piece(host, sample, chunk->first + at, count);
    }
    return result;
}

/* ---- by kernels, or the host ---- */

bool
values_compare(const struct wire_setting *setting, struct values_chunk chunk, ncclDataType_t type, CUdeviceptr found,
               CUstream stream, struct comm_error *error)
{
    static const char what[] = "comparing values";
    if (setting->kernels.loaded) {
        void *arguments[] = {&chunk, &found};
        return wire_run(setting, setting->kernels.compare_values[wire_kernel_type(type)], chunk.count, type, arguments,
                        stream, what, error);
    }
    struct host host;
    CUstreamCaptureMode mode;
    if (!host_open(&host, setting, type, stream, &mode))
        return comm_fail_by(error, COMM_OWN, "%s: out of memory", what);
    CUresult result = compare_on_host(&host, &chunk, found);
    host_close(&host, mode);
    return result == CUDA_SUCCESS || driver_fail(setting->driver, result, what, error);
}

bool
values_sample(const struct wire_setting *setting, struct values_chunk chunk, ncclDataType_t type,
              struct values_sample sample, CUstream stream, struct comm_error *error)
{
    static const char what[] = "sampling values";
    if (setting->kernels.loaded) {
        void *arguments[] = {&chunk, &sample};
        size_t like = sample.count + sample.marked < chunk.count ? sample.count + sample.marked : chunk.count;
        return wire_run(setting, setting->kernels.sample_values[wire_kernel_type(type)], like, type, arguments, stream,
                        what, error);
    }
    struct host host;
    CUstreamCaptureMode mode;
    if (!host_open(&host, setting, type, stream, &mode))
        return comm_fail_by(error, COMM_OWN, "%s: out of memory", what);
    CUresult result = sample_on_host(&host, &chunk, &sample);
    host_close(&host, mode);
    return result == CUDA_SUCCESS || driver_fail(setting->driver, result, what, error);
}
