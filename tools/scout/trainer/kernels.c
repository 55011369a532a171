/*
 * kernels.c - the names of kernels and where their parameters are, as the driver says. Kept for each handle.
 */
#include "base/printable.h"
#include "tools/plan/format/play.h"
#include "tools/scout/trainer/scout.h"

#include <xxhash.h>

enum { PARAMETERS_AT_MOST = 4096, NAMED_AT_MOST = 64, RECENT = 64 };

static struct known_kernel {
    CUfunction function;
    struct kernel kernel;
} * *kernels;                                /* each malloc'ed by itself: pointers to them last */
static struct known_kernel *recents[RECENT]; /* by their handles */
static size_t kernel_count;

/* Handles are of functions or of kernels: the function, and its name, which is NULL if neither call knows it. */
static CUfunction
function_of(CUfunction handle, const char **name)
{
    const struct driver *driver = &scout_state.driver;
    CUfunction function = handle;
    *name = NULL;
    if (driver->cuFuncGetName_p == NULL || driver->cuFuncGetName_p(name, handle) == CUDA_SUCCESS)
        return handle;
    if (driver->cuKernelGetFunction_p(&function, (CUkernel)handle) != CUDA_SUCCESS ||
        driver->cuFuncGetName_p(name, function) != CUDA_SUCCESS)
        *name = NULL;
    return function;
}

/* Offset and bytes of parameter `index` of a kernel, as the driver says them. */
static CUresult
parameter_info(CUfunction function, size_t index, size_t *offset_p, size_t *bytes_p)
{
    const struct driver *driver = &scout_state.driver;
    return driver->cuFuncGetParamInfo_p != NULL ? driver->cuFuncGetParamInfo_p(function, index, offset_p, bytes_p)
                                                : CUDA_ERROR_NOT_SUPPORTED;
}

/* What the kernel's name says of its parameters, if it says as many as there are, and of the same size. */
static void
read_name(struct kernel *kernel)
{
    struct mangled_parameter said[NAMED_AT_MOST];
    int count = mangled_parameters(kernel->text, said, NAMED_AT_MOST);
    bool fits = kernel->known && count == (int)kernel->parameter_count &&
                ALL_NUMBERS(i, 0, count, !said[i].is_pointer || kernel->parameters[i].bytes == sizeof(CUdeviceptr));
    for (int i = 0; i < count && fits; ++i) {
        kernel->parameters[i].type = said[i].pointee;
        kernel->parameters[i].table = said[i].table;
    }
}

uint64_t
kernels_hash(const char *name)
{
    return XXH3_64bits(name, strnlen(name, PLAY_NAME_BYTES - 1));
}

/* Fills what the driver and the kernel's name say of its parameters. Once for each kernel. */
static void
ask_about_function(CUfunction handle, struct kernel *kernel)
{
    size_t offset, bytes;
    unsigned count = 0;
    const char *name;
    CUfunction function = function_of(handle, &name);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    for (; name != NULL && count < PARAMETERS_AT_MOST; ++count) {
        result = parameter_info(function, count, &offset, &bytes);
        if (result != CUDA_SUCCESS)
            break;
    }
    /* Past the last parameter the driver answers INVALID_VALUE; anything else means that it cannot tell. */
    kernel->known = name != NULL && result == CUDA_ERROR_INVALID_VALUE;
    kernel->text = strdup(name != NULL ? name : "a kernel without a name");
    kernel->parameters = scout_zeroed(count + 1, sizeof(*kernel->parameters));
    char plain[256];
    kernel->plain = strdup(plain_name(kernel->text != NULL ? kernel->text : "", plain, sizeof(plain)));
    if (kernel->text == NULL || kernel->plain == NULL)
        scout_stop("out of memory");
    kernel->name = names_put(kernel->text);
    kernel->hash = kernels_hash(kernel->text);
    kernel->parameter_count = count;
    for (unsigned i = 0; i < count; ++i)
        (void)parameter_info(function, i, &kernel->parameters[i].offset, &kernel->parameters[i].bytes);
    read_name(kernel);
    kernel->variables = variables_of(function, &kernel->variable_count);
}

/* The kernel of a function, asked about at its first launch; valid until kernels_forget(). */
const struct kernel *
kernels_find(CUfunction function)
{
    struct known_kernel **recent = &recents[((uintptr_t)function >> 4) % RECENT];
    if (*recent != NULL && (*recent)->function == function)
        return &(*recent)->kernel;
    struct known_kernel **found = FIND(it, kernels, kernel_count, (*it)->function == function);
    struct known_kernel *known = found != NULL ? *found : scout_zeroed(1, sizeof(*known));
    if (found == NULL) {
        known->function = function;
        ask_about_function(function, &known->kernel);
        *SCOUT_GROWN(kernels, kernel_count) = known;
    }
    *recent = known;
    return &known->kernel;
}

const char *
kernels_argument(const struct operation *operation, const struct kernel *kernel, unsigned number)
{
    const char *buffer = NULL;
    if (operation->params != NULL)
        return operation->params[number];
    for (void *const *word = operation->extra; word != NULL && *word != CU_LAUNCH_PARAM_END; word += 2) {
        if (*word == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = word[1];
    }
    return buffer != NULL ? buffer + kernel->parameters[number].offset : NULL;
}

void
kernels_forget(bool all)
{
    scout_state.stream = all ? NULL : scout_state.stream;
    variables_forget();
    for (size_t i = 0; i < kernel_count; ++i)
        kernels[i]->function = NULL; /* the rest stays: operations that were noted refer to it */
}
