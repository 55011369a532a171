/*
 * test_modules.c - modules that NVRTC has compiled: the kernels of kernels.cu compute what a loop on the host computes;
 * a module loads in each form and by each call, with variables of its own; what is no module is refused.
 */
#include "../cublas/device.h"

#include <nvrtc.h>
#include <sys/mman.h>
#include <unistd.h>

enum { N = 1000, TAPS = 5, BINS = 7 };
#define GOLDEN 0x9e3779b97f4a7c15u

/* ---- compilation, once ---- */

static const char *const expressions[] = {
    "jit::elementwise<float, jit::maximum<float>>",
    "jit::elementwise<double, jit::plus<double>>",
    "jit::sum<128>",
    "jit::transpose",
    "jit::scale_16_bits<__half>",
    "jit::scale_16_bits<__nv_bfloat16>",
    "&jit::weights",
    "jit::convolve",
    "&jit::calls",
    "jit::histogram",
    "add_all<int, float, double>",
};

static nvrtcProgram program;
static char *ptx, *cubin;
static CUmodule module;

/* The file's text, after two headers that no file has. */
static char *
read_source(void)
{
    static const char headers[] = "#include <functors/binary.h>\n#include \"constants.h\"\n#line 1\n";
    enum { ROOM = 1 << 16 };
    FILE *file = fopen(KERNELS, "r");
    char *text = calloc(1, ROOM);
    ck_assert_ptr_nonnull(file);
    strcpy(text, headers);
    ck_assert_uint_gt(fread(text + strlen(headers), 1, ROOM - sizeof(headers), file), 0);
    fclose(file);
    return text;
}

static void
compile(void)
{
    static const char *const headers[] = {
        "#pragma once\n#define TAPS 5\n#include \"bins/bins.h\"\n",
        "#pragma once\n#include \"../sizes.h\"\n#define BINS SIZE\n",
        "#pragma once\n#define SIZE 7\n",
        "#pragma once\nnamespace jit {\n"
        "template <class T> struct plus { __device__ T operator()(T a, T b) const { return a + b; } };\n"
        "template <class T> struct maximum { __device__ T operator()(T a, T b) const { return a < b ? b : a; } };\n}\n",
    };
    static const char *const names[] = {"constants.h", "bins/bins.h", "sizes.h", "functors/binary.h"};
    static const char *const options[] = {"--gpu-architecture=sm_90", "-D", "GOLDEN=0x9e3779b97f4a7c15", "-std=c++17"};
    size_t bytes = 0;
    char *source = read_source();
    ck_assert_int_eq(nvrtcCreateProgram(&program, source, "kernels.cu", 4, headers, names), 0);
    for (size_t i = 0; i < sizeof(expressions) / sizeof(expressions[0]); ++i)
        ck_assert_int_eq(nvrtcAddNameExpression(program, expressions[i]), 0);
    const nvrtcResult result = nvrtcCompileProgram(program, 4, options);
    nvrtcGetProgramLogSize(program, &bytes);
    char *log = calloc(1, bytes);
    nvrtcGetProgramLog(program, log);
    ck_assert_msg(result == NVRTC_SUCCESS && bytes == 1, "%s", log);
    ck_assert_int_eq(nvrtcGetPTXSize(program, &bytes), 0);
    ptx = malloc(bytes);
    ck_assert_int_eq(nvrtcGetPTX(program, ptx), 0);
    ck_assert_int_eq(nvrtcGetCUBINSize(program, &bytes), 0);
    cubin = malloc(bytes);
    ck_assert_int_eq(nvrtcGetCUBIN(program, cubin), 0);
    free(log);
    free(source);
    device_start();
    ck_assert_int_eq(cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL), 0);
}

static void
end(void)
{
    ck_assert_int_eq(cuModuleUnload(module), 0);
    ck_assert_int_eq(nvrtcDestroyProgram(&program), 0);
    free(ptx);
    free(cubin);
}

/* ---- helpers ---- */

static const char *
lowered(const char *expression)
{
    const char *name = NULL;
    ck_assert_int_eq(nvrtcGetLoweredName(program, expression, &name), 0);
    return name;
}

static CUfunction
function_of(CUmodule from, const char *name)
{
    CUfunction function;
    ck_assert_msg(cuModuleGetFunction(&function, from, name) == 0, "%s", name);
    return function;
}

/* `name`: extern "C", or a name expression. */
static void
launch(const char *name, unsigned blocks, unsigned threads, unsigned rows, unsigned shared_bytes, void **arguments)
{
    CUfunction function =
        function_of(module, strchr(name, ':') != NULL || strchr(name, '<') != NULL ? lowered(name) : name);
    ck_assert_int_eq(cuLaunchKernel(function, blocks, 1, 1, threads, rows, 1, shared_bytes, NULL, arguments, NULL), 0);
    ck_assert_int_eq(cuCtxSynchronize(), 0);
}

static float x[N], y[N], out[N];
static void *dx, *dy, *dout;

static void
fill(void)
{
    for (int i = 0; i < N; ++i) {
        x[i] = (float)((i * 37) % 101) / 8 - 5;
        y[i] = (float)((i * 53) % 89) / 4 - 9;
        out[i] = -1;
    }
    dx = device_copy_of(x, sizeof(x));
    dy = device_copy_of(y, sizeof(y));
    dout = device_copy_of(out, sizeof(out));
}

static void
give_back(void)
{
    device_free(dx);
    device_free(dy);
    device_free(dout);
}

TEST_GROUP(modules, .start = compile, .stop = end, .setup = fill, .teardown = give_back, .timeout_s = 60);

/* ---- kernels ---- */

TEST(saxpy)
{
    float a = 2.5f;
    size_t n = N;
    launch("saxpy", (N + 127) / 128, 128, 1, 0, (void *[]){&a, &dx, &dy, &dout, &n});
    device_read(out, dout, sizeof(out));
    for (int i = 0; i < N; ++i)
        ck_assert_float_eq(out[i], a * x[i] + y[i]);
}

struct view {
    const void *data;
    long stride;
};

TEST(elementwise_over_views)
{
    struct view a = {dx, 1}, b = {dy, 2}, to = {dout, 2};
    int n = N / 2;
    launch("jit::elementwise<float, jit::maximum<float>>", 2, 64, 1, 0, (void *[]){&a, &b, &to, &n});
    device_read(out, dout, sizeof(out));
    for (int i = 0; i < N / 2; ++i) {
        ck_assert_float_eq(out[2 * i], x[i] < y[2 * i] ? y[2 * i] : x[i]);
        ck_assert_float_eq(out[2 * i + 1], -1);
    }
}

TEST(elementwise_of_doubles)
{
    double values[4] = {1, 2, 3, 4.5}, sums[4];
    void *in = device_copy_of(values, sizeof(values)), *made = device_copy_of(NULL, sizeof(sums));
    struct view a = {in, 1}, to = {made, 1};
    int n = 4;
    launch("jit::elementwise<double, jit::plus<double>>", 1, 32, 1, 0, (void *[]){&a, &a, &to, &n});
    device_read(sums, made, sizeof(sums));
    for (int i = 0; i < 4; ++i)
        ck_assert_double_eq(sums[i], 2 * values[i]);
    device_free(in);
    device_free(made);
}

TEST(reduction)
{
    int n = N;
    double wanted = 0;
    launch("jit::sum<128>", 1, 128, 1, 0, (void *[]){&dx, &dout, &n});
    device_read(out, dout, sizeof(out));
    for (int i = 0; i < N; ++i)
        wanted += x[i];
    ck_assert_double_eq_tol(out[0], wanted, 1e-3);
    CUfunction function = function_of(module, lowered("jit::sum<128>"));
    int threads = 0, shared = 0;
    ck_assert_int_eq(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function), 0);
    ck_assert_int_eq(cuFuncGetAttribute(&shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function), 0);
    ck_assert_int_eq(threads, 128); /* __launch_bounds__ */
    ck_assert_int_ge(shared, 16);
}

TEST(dynamic_shared_memory)
{
    enum { SIDE = 16 };
    int in[SIDE * SIDE], side = SIDE, turned[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; ++i)
        in[i] = i * i;
    void *from = device_copy_of(in, sizeof(in)), *to = device_copy_of(NULL, sizeof(in));
    launch("jit::transpose", 1, SIDE, SIDE, sizeof(in), (void *[]){&from, &to, &side});
    device_read(turned, to, sizeof(turned));
    for (int i = 0; i < SIDE * SIDE; ++i)
        ck_assert_int_eq(turned[i], in[i % SIDE * SIDE + i / SIDE]);
    device_free(from);
    device_free(to);
}

/* Bits of small integers: half has 10 bits of fraction and a bias of 15, bfloat16 7 and 127. */
static uint16_t
bits_of(int value, int fraction_bits, int bias)
{
    int exponent = 0;
    while (value >> (exponent + 1) != 0)
        ++exponent;
    const int fraction = (value << fraction_bits >> exponent) - (1 << fraction_bits);
    return (uint16_t)((exponent + bias) << fraction_bits | fraction);
}

static void
scale_16_bits(const char *expression, int fraction_bits, int bias)
{
    uint16_t values[64];
    float factor = 3;
    int n = 64;
    for (int i = 0; i < 64; ++i)
        values[i] = bits_of(i + 1, fraction_bits, bias);
    void *on_device = device_copy_of(values, sizeof(values));
    launch(expression, 2, 32, 1, 0, (void *[]){&on_device, &factor, &n});
    device_read(values, on_device, sizeof(values));
    for (int i = 0; i < 64; ++i)
        ck_assert_uint_eq(values[i], bits_of(3 * (i + 1), fraction_bits, bias));
    device_free(on_device);
}

TEST(half)
{
    scale_16_bits("jit::scale_16_bits<__half>", 10, 15);
}

TEST(bfloat16)
{
    scale_16_bits("jit::scale_16_bits<__nv_bfloat16>", 7, 127);
}

TEST(constants_by_lowered_name)
{
    const float table[TAPS] = {1, -2, 3, -4, 5};
    CUdeviceptr address;
    size_t bytes;
    int n = N;
    ck_assert_int_eq(cuModuleGetGlobal(&address, &bytes, module, lowered("&jit::weights")), 0);
    ck_assert_uint_eq(bytes, sizeof(table));
    ck_assert_int_eq(cuMemcpyHtoD(address, table, sizeof(table)), 0);
    launch("jit::convolve", (N + 63) / 64, 64, 1, 0, (void *[]){&dx, &dout, &n});
    device_read(out, dout, sizeof(out));
    for (int i = 0; i + TAPS <= N; ++i) {
        float wanted = 0;
        for (int k = 0; k < TAPS; ++k)
            wanted += table[k] * x[i + k];
        ck_assert_float_eq_tol(out[i], wanted, 1e-4f);
    }
}

TEST(atomics)
{
    unsigned values[N];
    int counts[BINS] = {0}, wanted[BINS] = {0}, n = N;
    for (int i = 0; i < N; ++i) {
        values[i] = (unsigned)i * 2654435761u;
        ++wanted[values[i] % BINS];
    }
    void *in = device_copy_of(values, sizeof(values)), *to = device_copy_of(counts, sizeof(counts));
    launch("jit::histogram", (N + 63) / 64, 64, 1, 0, (void *[]){&in, &to, &n});
    device_read(counts, to, sizeof(counts));
    for (int i = 0; i < BINS; ++i)
        ck_assert_int_eq(counts[i], wanted[i]);
    device_free(in);
    device_free(to);
}

TEST(integers_of_64_bits)
{
    uint64_t numbers[100], seed = 42;
    int n = 100;
    void *to = device_copy_of(NULL, sizeof(numbers));
    launch("draw", 1, 128, 1, 0, (void *[]){&seed, &to, &n});
    device_read(numbers, to, sizeof(numbers));
    for (int i = 0; i < n; ++i) {
        uint64_t z = seed + (uint64_t)(i + 1) * GOLDEN;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        ck_assert_uint_eq(numbers[i], z ^ (z >> 31));
    }
    device_free(to);
}

TEST(variadic_parameters)
{
    int a = 3;
    float b = 0.5f;
    double c = 0.125, sum = 0;
    void *to = device_copy_of(NULL, sizeof(sum));
    launch("add_all<int, float, double>", 1, 1, 1, 0, (void *[]){&to, &a, &b, &c});
    device_read(&sum, to, sizeof(sum));
    ck_assert_double_eq(sum, 3.625);
    size_t offset = 0, bytes = 0;
    CUfunction function = function_of(module, lowered("add_all<int, float, double>"));
    ck_assert_int_eq(cuFuncGetParamInfo(function, 3, &offset, &bytes), 0);
    ck_assert_uint_eq(offset, 16);
    ck_assert_uint_eq(bytes, 8);
    ck_assert_int_eq(cuFuncGetParamInfo(function, 4, &offset, &bytes), CUDA_ERROR_INVALID_VALUE);
    device_free(to);
}

/* ---- modules ---- */

static int
calls_of(CUmodule from)
{
    CUdeviceptr address;
    int calls;
    ck_assert_int_eq(cuModuleGetGlobal(&address, NULL, from, lowered("&jit::calls")), 0);
    device_read(&calls, (void *)address, sizeof(calls));
    return calls;
}

/* Each load of the same code is a module of its own; also from a cubin, and as a library. */
TEST(each_load_has_its_own_variables)
{
    CUmodule first, second, of_library;
    CUlibrary library;
    CUfunction function;
    int zero[BINS] = {0}, n = 1;
    void *counts = device_copy_of(zero, sizeof(zero));
    void *arguments[] = {&dx, &counts, &n};
    ck_assert_int_eq(cuModuleLoadData(&first, ptx), 0);
    ck_assert_int_eq(cuModuleLoadData(&second, cubin), 0);
    ck_assert_int_eq(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0), 0);
    ck_assert_int_eq(cuLibraryGetModule(&of_library, library), 0);
    for (int i = 0; i < 3; ++i) {
        function = function_of(i < 2 ? first : second, lowered("jit::histogram"));
        ck_assert_int_eq(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL), 0);
    }
    ck_assert_int_eq(cuCtxSynchronize(), 0);
    ck_assert_int_eq(calls_of(first), 2);
    ck_assert_int_eq(calls_of(second), 1);
    ck_assert_int_eq(calls_of(of_library), 0);
    ck_assert_int_eq(cuModuleUnload(first), 0);
    ck_assert_int_eq(cuModuleGetFunction(&function, first, "saxpy"), CUDA_ERROR_INVALID_HANDLE);
    ck_assert_int_eq(cuModuleUnload(second), 0);
    ck_assert_int_eq(cuLibraryUnload(library), 0);
    device_free(counts);
}

TEST(kernels_are_listed_and_found_by_their_one_name)
{
    CUfunction function;
    CUlibrary library;
    CUkernel kernels[32];
    unsigned count = 0;
    const char *name;
    ck_assert_int_eq(cuModuleGetFunction(&function, module, "transpose"), CUDA_ERROR_NOT_FOUND);
    ck_assert_int_eq(cuModuleGetFunction(&function, module, "jit::transpose"), CUDA_ERROR_NOT_FOUND);
    ck_assert_int_eq(cuModuleGetFunction(&function, module, "_ZN3jit9transposeEPKiPii"), 0);
    ck_assert_int_eq(cuFuncGetName(&name, function), 0);
    ck_assert_str_eq(name, "_ZN3jit9transposeEPKiPii");
    ck_assert_int_eq(cuModuleGetGlobal(NULL, NULL, module, "calls"), CUDA_ERROR_NOT_FOUND);
    ck_assert_int_eq(cuModuleGetFunction(&function, module, "nothing"), CUDA_ERROR_NOT_FOUND);
    ck_assert_int_eq(cuLibraryLoadData(&library, cubin, NULL, NULL, 0, NULL, NULL, 0), 0);
    ck_assert_int_eq(cuLibraryGetKernelCount(&count, library), 0);
    ck_assert_uint_eq(count, 11);
    ck_assert_int_eq(cuLibraryEnumerateKernels(kernels, 32, library), 0);
    for (unsigned i = 0; i < count; ++i)
        ck_assert_int_eq(cuKernelGetName(&name, kernels[i]), 0);
    ck_assert_int_eq(cuLibraryGetKernel(&kernels[0], library, "draw"), 0);
    ck_assert_int_eq(cuLibraryUnload(library), 0);
}

/* More than a process has room for thread-local variables of libraries, and descriptors. */
TEST(many_modules)
{
    CUmodule many[300];
    for (int i = 0; i < 300; ++i)
        ck_assert_int_eq(cuModuleLoadData(&many[i], cubin), 0);
    for (int i = 0; i < 300; ++i) {
        ck_assert_int_eq(calls_of(many[i]), 0);
        ck_assert_int_eq(cuModuleUnload(many[i]), 0);
    }
}

/* ---- files and links ---- */

/* A file in memory; the caller closes its descriptor. */
struct file {
    int descriptor;
    char path[64];
};

static struct file
new_file(const void *bytes, size_t length)
{
    struct file file = {.descriptor = memfd_create("module", MFD_CLOEXEC)};
    ck_assert_int_ge(file.descriptor, 0);
    ck_assert_int_eq(write(file.descriptor, bytes, length), (ssize_t)length);
    snprintf(file.path, sizeof(file.path), "/proc/self/fd/%d", file.descriptor);
    return file;
}

/* Its kernel computes. */
static void
check_module(CUmodule loaded)
{
    float a = 3;
    size_t n = N;
    void *arguments[] = {&a, &dx, &dy, &dout, &n};
    ck_assert_int_eq(cuLaunchKernel(function_of(loaded, "saxpy"), N / 100, 1, 1, 100, 1, 1, 0, NULL, arguments, NULL),
                     0);
    ck_assert_int_eq(cuCtxSynchronize(), 0);
    device_read(out, dout, sizeof(out));
    for (int i = 0; i < N; ++i)
        ck_assert_float_eq(out[i], a * x[i] + y[i]);
    ck_assert_int_eq(cuModuleUnload(loaded), 0);
}

static size_t
cubin_bytes(void)
{
    size_t bytes = 0;
    ck_assert_int_eq(nvrtcGetCUBINSize(program, &bytes), 0);
    return bytes;
}

/* Programs that compile once and keep the file write the text with its NUL or without it. */
TEST(a_file_is_loaded)
{
    const struct {
        const char *bytes;
        size_t length;
    } files[] = {{ptx, strlen(ptx)}, {ptx, strlen(ptx) + 1}, {cubin, cubin_bytes()}};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); ++i) {
        struct file file = new_file(files[i].bytes, files[i].length);
        CUmodule loaded;
        CUlibrary library;
        ck_assert_int_eq(cuModuleLoad(&loaded, file.path), 0);
        ck_assert_int_eq(cuLibraryLoadFromFile(&library, file.path, NULL, NULL, 0, NULL, NULL, 0), 0);
        close(file.descriptor);
        check_module(loaded);
        ck_assert_int_eq(cuLibraryUnload(library), 0);
    }
}

TEST(a_file_that_is_no_module_is_refused)
{
    static const char image[] = "SOFTGPU\0\1\0\0"; /* the stand-in's own images have pointers */
    const struct {
        const char *bytes;
        size_t length;
        CUresult code;
    } files[] = {
        {"", 0, CUDA_ERROR_NO_BINARY_FOR_GPU},
        {".version 9.0\n.target sm_90\n", 27, CUDA_ERROR_NO_BINARY_FOR_GPU},
        {image, sizeof(image), CUDA_ERROR_NO_BINARY_FOR_GPU},
        {ptx, 20, CUDA_ERROR_NO_BINARY_FOR_GPU},
        {ptx, strlen(ptx) / 2, CUDA_ERROR_INVALID_PTX},
        {cubin, 8, CUDA_ERROR_INVALID_IMAGE},
        {cubin, cubin_bytes() - 1, CUDA_ERROR_INVALID_IMAGE},
    };
    CUmodule loaded;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); ++i) {
        struct file file = new_file(files[i].bytes, files[i].length);
        ck_assert_msg(cuModuleLoad(&loaded, file.path) == files[i].code, "row %zu", i);
        close(file.descriptor);
    }
    ck_assert_int_eq(cuModuleLoad(&loaded, "no/such/file"), CUDA_ERROR_FILE_NOT_FOUND);
    ck_assert_int_eq(cuModuleLoad(&loaded, "."), CUDA_ERROR_FILE_NOT_FOUND);
    ck_assert_int_eq(cuModuleLoad(&loaded, NULL), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuModuleLoad(NULL, "."), CUDA_ERROR_INVALID_VALUE);
}

/* As CUDA's samples do it: PTX to a cubin, with logs. The linker keeps nothing of its input. */
TEST(one_input_is_linked)
{
    char info[64] = "not written", errors[64] = "not written", *input = strdup(ptx);
    float milliseconds = 7;
    CUjit_option options[] = {CU_JIT_WALL_TIME, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                              CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER};
    void *values[] = {NULL, info, (void *)sizeof(info), (void *)sizeof(errors), errors}, *image;
    CUlinkState state;
    CUmodule loaded;
    size_t bytes = 0;
    memcpy(&values[0], &milliseconds, sizeof(milliseconds));
    ck_assert_int_eq(cuLinkCreate(5, options, values, &state), 0);
    ck_assert_int_eq(cuLinkAddData(state, CU_JIT_INPUT_PTX, input, strlen(input), "saxpy.ptx", 0, NULL, NULL), 0);
    free(input);
    ck_assert_int_eq(cuLinkComplete(state, &image, &bytes), 0);
    ck_assert_uint_eq(bytes, strlen(ptx) + 1);
    ck_assert_int_eq(cuModuleLoadData(&loaded, image), 0);
    ck_assert_int_eq(cuLinkDestroy(state), 0);
    check_module(loaded);
    memcpy(&milliseconds, &values[0], sizeof(milliseconds));
    ck_assert_float_eq(milliseconds, 0);
    ck_assert_str_eq(info, "");
    ck_assert_str_eq(errors, "");
    ck_assert_ptr_null(values[2]);

    struct file file = new_file(cubin, cubin_bytes());
    ck_assert_int_eq(cuLinkCreate(0, NULL, NULL, &state), 0);
    ck_assert_int_eq(cuLinkAddFile(state, CU_JIT_INPUT_CUBIN, file.path, 0, NULL, NULL), 0);
    close(file.descriptor);
    ck_assert_int_eq(cuLinkComplete(state, &image, NULL), 0);
    ck_assert_int_eq(cuModuleLoadDataEx(&loaded, image, 0, NULL, NULL), 0);
    ck_assert_int_eq(cuLinkDestroy(state), 0);
    check_module(loaded);
}

TEST(other_links_are_refused)
{
    static char real_ptx[] = ".version 9.0\n.target sm_90\n";
    const struct {
        CUjitInputType type;
        char *data;
        size_t bytes;
        CUresult code;
    } inputs[] = {
        {CU_JIT_INPUT_FATBINARY, ptx, strlen(ptx), CUDA_ERROR_NO_BINARY_FOR_GPU},
        {CU_JIT_INPUT_OBJECT, ptx, strlen(ptx), CUDA_ERROR_NO_BINARY_FOR_GPU},
        {CU_JIT_INPUT_LIBRARY, ptx, strlen(ptx), CUDA_ERROR_NO_BINARY_FOR_GPU},
        {CU_JIT_INPUT_NVVM, ptx, strlen(ptx), CUDA_ERROR_NO_BINARY_FOR_GPU},
        {CU_JIT_NUM_INPUT_TYPES, ptx, strlen(ptx), CUDA_ERROR_INVALID_VALUE},
        {CU_JIT_INPUT_PTX, NULL, 9, CUDA_ERROR_INVALID_VALUE},
        {CU_JIT_INPUT_PTX, ptx, 0, CUDA_ERROR_INVALID_VALUE},
        {CU_JIT_INPUT_PTX, real_ptx, sizeof(real_ptx), CUDA_ERROR_NO_BINARY_FOR_GPU},
        {CU_JIT_INPUT_PTX, cubin, cubin_bytes(), CUDA_ERROR_INVALID_PTX},
        {CU_JIT_INPUT_CUBIN, ptx, strlen(ptx), CUDA_ERROR_INVALID_IMAGE},
        {CU_JIT_INPUT_CUBIN, cubin, cubin_bytes() - 1, CUDA_ERROR_INVALID_IMAGE},
        {CU_JIT_INPUT_CUBIN, cubin, cubin_bytes(), CUDA_SUCCESS},
        {CU_JIT_INPUT_CUBIN, cubin, cubin_bytes(), CUDA_ERROR_NOT_SUPPORTED}, /* a second one */
    };
    CUlinkState state, stale;
    void *image;
    ck_assert_int_eq(cuLinkCreate(0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuLinkCreate(1, NULL, NULL, &state), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cuLinkCreate(0, NULL, NULL, &state), 0);
    ck_assert_int_eq(cuLinkComplete(state, &image, NULL), CUDA_ERROR_INVALID_VALUE); /* no input */
    ck_assert_int_eq(cuLinkAddFile(state, CU_JIT_INPUT_PTX, "no/such/file", 0, NULL, NULL), CUDA_ERROR_FILE_NOT_FOUND);
    for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); ++i)
        ck_assert_msg(cuLinkAddData(state, inputs[i].type, inputs[i].data, inputs[i].bytes, NULL, 0, NULL, NULL) ==
                          inputs[i].code,
                      "row %zu", i);
    ck_assert_int_eq(cuLinkComplete(state, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    stale = state;
    ck_assert_int_eq(cuLinkDestroy(state), 0);
    ck_assert_int_eq(cuLinkDestroy(stale), CUDA_ERROR_INVALID_HANDLE);
    ck_assert_int_eq(cuLinkComplete(stale, &image, NULL), CUDA_ERROR_INVALID_HANDLE);
    ck_assert_int_eq(cuLinkDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
}

TEST(what_is_no_module_is_refused)
{
    CUmodule loaded;
    char *cut = strdup(ptx);
    cut[strlen(cut) / 2] = '\0';
    ck_assert_int_eq(cuModuleLoadData(&loaded, cut), CUDA_ERROR_INVALID_PTX);
    cut[100] = '\0';
    ck_assert_int_eq(cuModuleLoadData(&loaded, cut), CUDA_ERROR_INVALID_PTX);
    ck_assert_int_eq(cuModuleLoadData(&loaded, ".version 9.0\n.target sm_90\n"), CUDA_ERROR_NO_BINARY_FOR_GPU);
    cubin[8] = 99; /* the version */
    ck_assert_int_eq(cuModuleLoadData(&loaded, cubin), CUDA_ERROR_INVALID_IMAGE);
    cubin[8] = 1;
    cubin[24] = 'x'; /* the library's first byte */
    ck_assert_int_eq(cuModuleLoadData(&loaded, cubin), CUDA_ERROR_INVALID_IMAGE);
    free(cut);
}
