/*
 * link.c - cuLink...: the linker that drivers have for code that is compiled at run time. The stand-in's modules are
 * linked already (softgpu/module.h), so one input is the result; a second one is refused by name.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

/* A CUlinkState. */
struct linker {
    uint32_t magic;
    char *image;  /* a module that libnvrtc has compiled; NULL: no input yet */
    size_t bytes; /* with the NUL of a text */
};

static CUresult
enter_linker(CUlinkState handle, struct linker **linker_p)
{
    TRY(driver_enter());
    struct linker *linker = (struct linker *)handle;
    REQUIRE_ELSE(linker != NULL && linker->magic == MAGIC_LINKER, CUDA_ERROR_INVALID_HANDLE);
    *linker_p = linker;
    return CUDA_SUCCESS;
}

static CUresult
check_type(const char *what, CUjitInputType type)
{
    static const char *const refused[CU_JIT_NUM_INPUT_TYPES] = {
        [CU_JIT_INPUT_FATBINARY] = "a fatbin",
        [CU_JIT_INPUT_OBJECT] = "an object file",
        [CU_JIT_INPUT_LIBRARY] = "an archive",
        [CU_JIT_INPUT_NVVM] = "LTO IR",
    };
    REQUIRE((unsigned)type < CU_JIT_NUM_INPUT_TYPES);
    if (refused[type] != NULL) {
        say("%s: %s; the stand-in links only what its NVRTC or softgpu-cc -ptx has compiled", what, refused[type]);
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    return CUDA_SUCCESS;
}

/* Whether the linker takes an input of this type now. `what`: the input, for messages. */
static CUresult
check_input(const struct linker *linker, const char *what, CUjitInputType type)
{
    TRY(check_type(what, type));
    if (linker->image != NULL) {
        say("%s: a second input; the stand-in does not link modules with each other: compile one source", what);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

/* Keeps the input, which belongs to the linker from now on. */
static CUresult
add(struct linker *linker, const char *what, CUjitInputType type, char *image, size_t bytes)
{
    const bool is_text = module_is_text(image);
    if (is_text != (type == CU_JIT_INPUT_PTX)) {
        say("%s: %s, but its type is that of %s", what, is_text ? "text" : "a cubin", is_text ? "a cubin" : "PTX");
        free(image);
        return is_text ? CUDA_ERROR_INVALID_IMAGE : CUDA_ERROR_INVALID_PTX;
    }
    linker->image = image;
    linker->bytes = bytes;
    return CUDA_SUCCESS;
}

CUresult
cuLinkCreate_v2(unsigned int count, CUjit_option *options, void **values, CUlinkState *handle_out)
{
    struct context *context;
    TRY(context_enter(&context));
    REQUIRE(handle_out != NULL && (count == 0 || (options != NULL && values != NULL)));
    struct linker *linker = object_take(OBJECT_LINKER, sizeof *linker);
    REQUIRE_ELSE(linker != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    module_clear_logs(count, options, values);
    linker->magic = MAGIC_LINKER;
    *handle_out = (CUlinkState)linker;
    return CUDA_SUCCESS;
}

CUresult
cuLinkAddData_v2(CUlinkState handle, CUjitInputType type, void *data, size_t bytes, const char *name,
                 unsigned int count, CUjit_option *options, void **values)
{
    (void)count, (void)options, (void)values; /* nothing is compiled */
    const char *what = name != NULL && *name != '\0' ? name : "cuLinkAddData";
    struct linker *linker;
    char *image;
    TRY(enter_linker(handle, &linker));
    REQUIRE(data != NULL && bytes > 0);
    TRY(check_input(linker, what, type));
    TRY(module_copy(what, data, &bytes, &image));
    return add(linker, what, type, image, bytes);
}

CUresult
cuLinkAddFile_v2(CUlinkState handle, CUjitInputType type, const char *path, unsigned int count, CUjit_option *options,
                 void **values)
{
    (void)count, (void)options, (void)values; /* nothing is compiled */
    struct linker *linker;
    char *image;
    size_t bytes;
    TRY(enter_linker(handle, &linker));
    REQUIRE(path != NULL);
    TRY(check_input(linker, path, type));
    TRY(module_read(path, &bytes, &image));
    return add(linker, path, type, image, bytes);
}

CUresult
cuLinkComplete(CUlinkState handle, void **image_out, size_t *bytes)
{
    struct linker *linker;
    TRY(enter_linker(handle, &linker));
    REQUIRE(image_out != NULL);
    if (linker->image == NULL) {
        say("cuLinkComplete: nothing was added");
        return CUDA_ERROR_INVALID_VALUE;
    }
    *image_out = linker->image;
    if (bytes != NULL) {
        *bytes = linker->bytes;
    }
    return CUDA_SUCCESS;
}

CUresult
cuLinkDestroy(CUlinkState handle)
{
    struct linker *linker;
    TRY(enter_linker(handle, &linker));
    free(linker->image);
    linker->magic = 0;
    object_give(OBJECT_LINKER, linker);
    return CUDA_SUCCESS;
}
