/*
 * error.c - the last error of each thread, and the names and texts of errors, from a table that the build makes from
 * CUDA's header.
 */
#include "runtime.h"

struct error_text {
    int code;
    const char *name, *text;
};
extern const struct error_text runtime_errors[];
extern const size_t runtime_errors_count;

int softgpu_unsupported(const char *name, _Atomic bool *said);

static _Thread_local cudaError_t last_error;

cudaError_t
from_driver(CUresult result)
{
    bool has_no_twin = result == CUDA_ERROR_CONTEXT_ALREADY_CURRENT || result == CUDA_ERROR_KEY_ROTATION;
    return has_no_twin ? cudaErrorUnknown : (cudaError_t)result;
}

cudaError_t
finish(cudaError_t error)
{
    if (error != cudaSuccess) {
        last_error = error;
    }
    return error;
}

cudaError_t
cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t
cudaPeekAtLastError(void)
{
    return last_error;
}

static const struct error_text *
find(cudaError_t code)
{
    for (size_t i = 0; i < runtime_errors_count; ++i) {
        if (runtime_errors[i].code == (int)code) {
            return &runtime_errors[i];
        }
    }
    return NULL;
}

const char *
cudaGetErrorName(cudaError_t code)
{
    const struct error_text *found = find(code);
    return found != NULL ? found->name : "unrecognized error code";
}

const char *
cudaGetErrorString(cudaError_t code)
{
    const struct error_text *found = find(code);
    return found != NULL ? found->text : "unrecognized error code";
}

/* What a generated stub does. */
int
softgpu_unsupported(const char *name, _Atomic bool *said)
{
    if (!atomic_exchange(said, true)) {
        say("%s is not supported by the stand-in's runtime; it returns cudaErrorNotSupported", name);
    }
    return finish(cudaErrorNotSupported);
}
