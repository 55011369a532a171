/*
 * fake_cudnn.c - the test's own libcudnn, made from the shim's table: every call only records what it got.
 */
#include "fake_cudnn.h"

#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT struct fake_cudnn fake_cudnn;

static int
lay_down(const char *symbol, uint64_t first, uint64_t last)
{
    ++fake_cudnn.calls;
    fake_cudnn.symbol = symbol;
    fake_cudnn.first = first;
    fake_cudnn.last = last;
    return fake_cudnn.answer;
}

/* The first and the last argument. */
#define ROW(symbol, parameters, arguments, ...)                                                       \
    int symbol parameters;                                                                            \
    EXPORT int symbol parameters                                                                      \
    {                                                                                                 \
        return lay_down(#symbol, (uint64_t)(uintptr_t)handle, (uint64_t)(uintptr_t)(LAST arguments)); \
    }
/* The comma operator leaves the last of them. */
#define LAST(...) (__VA_ARGS__)
#pragma GCC diagnostic ignored "-Wunused-value"
#include "interpose/shim/libraries/cudnn.def"

int cudnnGetStream(void *handle, void **stream);
int cudnnGetTensorSizeInBytes(const void *descriptor, size_t *bytes);
int cudnnGetFilterSizeInBytes(const void *descriptor, size_t *bytes);
int cudnnBackendGetAttribute(void *descriptor, int attribute, int type, int64_t asked, int64_t *count, void *values);

EXPORT int
cudnnGetStream(void *handle, void **stream)
{
    (void)handle;
    *stream = fake_cudnn.stream;
    return 0;
}

EXPORT int
cudnnGetTensorSizeInBytes(const void *descriptor, size_t *bytes)
{
    *bytes = ((const struct fake_descriptor *)descriptor)->bytes;
    return 0;
}

EXPORT int
cudnnGetFilterSizeInBytes(const void *descriptor, size_t *bytes)
{
    return cudnnGetTensorSizeInBytes(descriptor, bytes);
}

EXPORT int
cudnnBackendGetAttribute(void *descriptor, int attribute, int type, int64_t asked, int64_t *count, void *values)
{
    const struct fake_descriptor *of = descriptor;
    if (fake_cudnn.has_no_attributes)
        return 1;
    if (attribute == 1001 && type == 6) { /* the pack's pointers */
        *count = of->pointer_count;
        memcpy(values, of->pointers, (size_t)(asked < *count ? asked : *count) * sizeof(void *));
    } else if (attribute == 1003 && type == 6) { /* its workspace */
        *count = 1;
        memcpy(values, &of->workspace, sizeof(void *));
    } else if (attribute == 402 && type == 3) { /* the plan's workspace size */
        *count = 1;
        memcpy(values, &of->workspace_bytes, sizeof(int64_t));
    } else {
        return 1;
    }
    return 0;
}
