/* kernels.c - see kernels.h. */
#include "comm/kernels.h"

#include "base/kernel_files.h"
#include "comm/kernels/chunk.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *pack, *digest, *unpack;
} names[KERNEL_CONVERSIONS] = {
    [CONVERT_NOTHING] = {"ddprun_pack", "ddprun_digest", "ddprun_unpack"},
    [CONVERT_TO_FLOAT16] = {"ddprun_pack_float16", "ddprun_digest_float16", "ddprun_unpack_float16"},
    [CONVERT_TO_BFLOAT16] = {"ddprun_pack_bfloat16", "ddprun_digest_bfloat16", "ddprun_unpack_bfloat16"},
    [CONVERT_TO_FLOAT32] = {"ddprun_pack_widened", "ddprun_digest_widened", "ddprun_unpack_widened"},
};

static const char *const type_names[KERNEL_TYPES] = {
    [KERNEL_FLOAT32] = "float32",
    [KERNEL_FLOAT64] = "float64",
    [KERNEL_FLOAT16] = "float16",
    [KERNEL_BFLOAT16] = "bfloat16",
};

/* Where kernels come from: one module with all of them, or for each an image of its own. */
struct source {
    const struct driver *driver;
    const char *path;
    CUmodule module;
    const void *(*image)(const char *name);
};

static bool
find_kernel(const struct source *source, const char *name, CUfunction *function_p, struct comm_error *error)
{
    CUmodule module = source->module;
    CUresult result = CUDA_SUCCESS;
    if (source->image != NULL) {
        const void *image = source->image(name);
        result = image != NULL ? source->driver->cuModuleLoadData_p(&module, image) : CUDA_ERROR_NOT_FOUND;
    }
    if (result == CUDA_SUCCESS)
        result = source->driver->cuModuleGetFunction_p(function_p, module, name);
    return result == CUDA_SUCCESS || comm_fail(error, "%s has no kernel %s that this device can run: %s", source->path,
                                               name, driver_result_name(source->driver, result));
}

/* "ddprun_scale_float32" and its like. */
static bool
find_for_types(const struct source *source, const char *what, CUfunction found[KERNEL_TYPES], struct comm_error *error)
{
    char name[64];
    for (int i = 0; i < KERNEL_TYPES; ++i) {
        snprintf(name, sizeof(name), "ddprun_%s_%s", what, type_names[i]);
        if (!find_kernel(source, name, &found[i], error))
            return false;
    }
    return true;
}

static bool
find_for_conversions(const struct source *source, struct kernels *kernels, struct comm_error *error)
{
    for (int i = 0; i < KERNEL_CONVERSIONS; ++i) {
        if (!find_kernel(source, names[i].pack, &kernels->in[i].pack, error) ||
            !find_kernel(source, names[i].digest, &kernels->in[i].digest, error) ||
            !find_kernel(source, names[i].unpack, &kernels->in[i].unpack, error))
            return false;
    }
    return true;
}

static bool
find_all(const struct source *source, struct kernels *kernels_p, struct comm_error *error)
{
    struct kernels found = {.loaded = true, .threads = source->image != NULL ? 1 : CHUNK_THREADS};
    const struct {
        const char *what;
        CUfunction *found;
    } for_types[] = {
        {"scale", found.scale},
        {"pack_scaled", found.pack_scaled},
        {"digest_scaled", found.digest_scaled},
        {"unpack_scaled", found.unpack_scaled},
        {"compare_values", found.compare_values},
        {"sample_values", found.sample_values},
    };
    const struct {
        const char *name;
        CUfunction *found;
    } single[] = {
        {"ddprun_chunks", &found.chunks},
        {"ddprun_hash", &found.hash},
        {"ddprun_compare", &found.compare},
        {"ddprun_nonfinite", &found.nonfinite},
    };
    if (!find_for_conversions(source, &found, error))
        return false;
    for (size_t i = 0; i < sizeof(for_types) / sizeof(for_types[0]); ++i) {
        if (!find_for_types(source, for_types[i].what, for_types[i].found, error))
            return false;
    }
    for (size_t i = 0; i < sizeof(single) / sizeof(single[0]); ++i) {
        if (!find_kernel(source, single[i].name, single[i].found, error))
            return false;
    }
    *kernels_p = found;
    return true;
}

static bool
load_library(struct source *source, struct comm_error *error)
{
    void *library = dlopen(source->path, RTLD_NOW | RTLD_LOCAL); /* for good: launches run its code */
    if (library == NULL)
        return comm_fail(error, "cannot open %s: %s", source->path, dlerror());
    *(void **)&source->image = dlsym(library, "ddprun_kernel_image");
    return source->image != NULL || comm_fail(error, "%s has no kernels of ddprun", source->path);
}

static bool
load_fatbin(struct source *source, const char *path, struct comm_error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat file;
    if (fd < 0 || fstat(fd, &file) != 0 || file.st_size == 0) {
        comm_fail(error, "cannot read %s: %s", path, fd < 0 ? strerror(errno) : "it is empty");
        if (fd >= 0)
            close(fd);
        return false;
    }
    void *image = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (image == MAP_FAILED)
        return comm_fail(error, "cannot map %s: %s", path, strerror(errno));
    CUresult result = source->driver->cuModuleLoadData_p(&source->module, image); /* takes what it needs */
    munmap(image, (size_t)file.st_size);
    return result == CUDA_SUCCESS ||
           comm_fail(error, "%s has no code for this device: %s", path, driver_result_name(source->driver, result));
}

/* Where neither file loads, the error is of the first: that is the one for this driver. */
static bool
load_fatbins(struct source *source, struct comm_error *error)
{
    int version = 0;
    struct kernel_files files;
    struct comm_error of_second;
    (void)source->driver->cuDriverGetVersion_p(&version);
    kernel_files_find(source->path, version, &files);
    for (int i = 0; i < 2 && files.paths[i] != NULL; ++i) {
        if (load_fatbin(source, files.paths[i], i == 0 ? error : &of_second))
            return true;
    }
    return false;
}

static bool
load(struct source *source, struct comm_error *error)
{
    size_t length = strlen(source->path);
    bool is_library = length > 3 && strcmp(source->path + length - 3, ".so") == 0;
    return is_library ? load_library(source, error) : load_fatbins(source, error);
}

bool
kernels_load(struct kernels *kernels, const struct driver *driver, const char *path, struct comm_error *error)
{
    struct source source = {.driver = driver, .path = path};
    return load(&source, error) && find_all(&source, kernels, error);
}

bool
kernels_load_named(const char *const *wanted, CUfunction *found, size_t count, const struct driver *driver,
                   const char *path, struct comm_error *error)
{
    struct source source = {.driver = driver, .path = path};
    bool ok = load(&source, error);
    for (size_t i = 0; i < count && ok; ++i)
        ok = find_kernel(&source, wanted[i], &found[i], error);
    return ok;
}
