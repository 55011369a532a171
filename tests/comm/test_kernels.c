/*
 * test_kernels.c - which of the two files with ddprun's kernels for GPUs is loaded (base/kernel_files.h), by drivers
 * that load images of one CUDA version each, and by one that loads both.
 *
 * Properties: the file of the driver's own release is tried first, the other one after it; the error of a driver that
 * loads neither names the first.
 */
#include "comm/kernels.h"

#include "tests/lib/test.h"

/* ---- a driver that only loads modules ---- */

static int serves;        /* the CUDA version */
static const char *loads; /* images that begin with one of these letters */
static char tried[8];     /* the first letters of the images, in order */

static CUresult
answer_version(int *version)
{
    *version = serves;
    return CUDA_SUCCESS;
}

static CUresult
load_module(CUmodule *module, const void *image)
{
    char first = *(const char *)image;
    strncat(tried, &first, 1);
    *module = NULL;
    return strchr(loads, first) != NULL ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
}

static CUresult
find_function(CUfunction *function, CUmodule module, const char *name)
{
    (void)module, (void)name;
    *function = NULL;
    return CUDA_SUCCESS;
}

static CUresult
name_error(CUresult result, const char **name)
{
    *name = result == CUDA_ERROR_NO_BINARY_FOR_GPU ? "CUDA_ERROR_NO_BINARY_FOR_GPU" : "?";
    return CUDA_SUCCESS;
}

static const struct driver driver = {.cuDriverGetVersion_p = answer_version,
                                     .cuModuleLoadData_p = load_module,
                                     .cuModuleGetFunction_p = find_function,
                                     .cuGetErrorName_p = name_error};

/* ---- the files: "new", for CUDA 13, and "old", for CUDA 12 ---- */

static char folder[32], path_of_13[64], path_of_12[64];

static void
write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static void
make_files(void)
{
    snprintf(folder, sizeof(folder), "/tmp/ddprun-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path_of_13, sizeof(path_of_13), "%s/kernels.fatbin", folder);
    snprintf(path_of_12, sizeof(path_of_12), "%s/kernels-cuda12.fatbin", folder);
    write_file(path_of_13, "new");
    write_file(path_of_12, "old");
    tried[0] = '\0';
}

static void
remove_files(void)
{
    (void)unlink(path_of_12);
    ck_assert_int_eq(unlink(path_of_13), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}

TEST_GROUP(all, .timeout_s = 20, .setup = make_files, .teardown = remove_files);

static const struct {
    int serves;
    const char *loads, *tried;
} drivers[] = {
    {13000, "no", "n"}, /* a GPU of Turing or later */
    {13000, "o", "no"}, /* Volta, which CUDA 13 has no code for */
    {12040, "no", "o"}, {12040, "o", "o"}, {12090, "n", "on"}, {0, "n", "n"}, {0, "o", "no"},
};

TABLE_TEST(the_file_of_the_drivers_release_comes_first, drivers)
{
    struct kernels kernels = {0};
    struct comm_error error;
    serves = drivers[_i].serves;
    loads = drivers[_i].loads;
    ck_assert_msg(kernels_load(&kernels, &driver, path_of_13, &error), "%s", error.text);
    ck_assert(kernels.loaded);
    ck_assert_str_eq(tried, drivers[_i].tried);
}

LOOP_TEST(the_error_names_the_file_of_the_drivers_release, 0, 2)
{
    struct kernels kernels = {0};
    struct comm_error error;
    serves = _i == 0 ? 12040 : 13000;
    loads = "";
    ck_assert(!kernels_load(&kernels, &driver, path_of_13, &error));
    ck_assert(!kernels.loaded);
    ck_assert_uint_eq(strlen(tried), 2);
    ck_assert_ptr_nonnull(strstr(error.text, _i == 0 ? path_of_12 : path_of_13));
    ck_assert_ptr_nonnull(strstr(error.text, "has no code for this device: CUDA_ERROR_NO_BINARY_FOR_GPU"));
}

TEST(a_file_alone_is_loaded_whatever_the_driver_serves)
{
    struct kernels kernels = {0};
    struct comm_error error;
    serves = 12040;
    loads = "n";
    ck_assert_int_eq(unlink(path_of_12), 0);
    ck_assert_msg(kernels_load(&kernels, &driver, path_of_13, &error), "%s", error.text);
    ck_assert_str_eq(tried, "n");
}
