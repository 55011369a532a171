/*
 * error.c - names and texts of the driver's error codes, from a table that the build makes from cuda.h.
 */
#include "driver.h"

struct error_text {
    int code;
    const char *name, *text;
};
extern const struct error_text driver_errors[];
extern const size_t driver_errors_count;

static const struct error_text *
find(CUresult code)
{
    for (size_t i = 0; i < driver_errors_count; ++i) {
        if (driver_errors[i].code == (int)code) {
            return &driver_errors[i];
        }
    }
    return NULL;
}

CUresult
cuGetErrorName(CUresult code, const char **name)
{
    const struct error_text *found = find(code);
    REQUIRE(name != NULL);
    *name = found != NULL ? found->name : NULL;
    return found != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuGetErrorString(CUresult code, const char **text)
{
    const struct error_text *found = find(code);
    REQUIRE(text != NULL);
    *text = found != NULL ? found->text : NULL;
    return found != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
