/*
 * test_nvrtc.c - libnvrtc's functions return the codes that nvrtc.h documents, for right and for wrong input, and the
 * log says what is wrong in NVRTC's words. Where nvrtc.h names several codes, the one expected here is that of NVIDIA's
 * library: all but the rows of `only_here` pass with it too (LD_LIBRARY_PATH=/usr/local/cuda/lib64).
 */
#include "tests/lib/test.h"

#include <dlfcn.h>
#include <nvrtc.h>

static const char source[] =
    "extern \"C\" __global__ void set(float *x) { *x = 1; }\n"
    "namespace n { template <class T> __global__ void copy(T *to, const T *from) { *to = *from; }\n"
    "__constant__ float table[3]; __device__ int counter; }\n"
    "__device__ float total; __device__ int helper(int x) { return x; }\n";

/* ---- programs ---- */

static nvrtcProgram
new_program(const char *text)
{
    nvrtcProgram program = NULL;
    ck_assert_int_eq(nvrtcCreateProgram(&program, text, "test.cu", 0, NULL, NULL), NVRTC_SUCCESS);
    ck_assert_ptr_nonnull(program);
    return program;
}

static void
end_program(nvrtcProgram *program)
{
    ck_assert_int_eq(nvrtcDestroyProgram(program), NVRTC_SUCCESS);
    ck_assert_ptr_null(*program);
}

static char *
log_of(nvrtcProgram program)
{
    size_t bytes = 0;
    ck_assert_int_eq(nvrtcGetProgramLogSize(program, &bytes), NVRTC_SUCCESS);
    char *log = malloc(bytes);
    ck_assert_int_eq(nvrtcGetProgramLog(program, log), NVRTC_SUCCESS);
    ck_assert_uint_eq(strlen(log) + 1, bytes);
    return log;
}

static bool
is_stand_in(void)
{
    Dl_info info;
    void *function = NULL;
    nvrtcResult (*version)(int *, int *) = nvrtcVersion;
    memcpy(&function, &version, sizeof(function));
    return dladdr(function, &info) != 0 && strstr(info.dli_fname, "/softgpu/") != NULL;
}

/* Compiled once: what a good compilation gives. */
static nvrtcProgram good, fresh;
static size_t size;
static char room[1 << 20];
static const char *name;
static int major, minor, count, numbers[64];

static void
compile_good(void)
{
    static const char *const expressions[] = {"n::copy<float>", "&n::copy<int>", "&n::table", "n::table",
                                              "&n::counter",    "&total",        "set"};
    static const char *const options[] = {"-arch=sm_80", "-std=c++17"};
    fresh = new_program(source);
    good = new_program(source);
    for (size_t i = 0; i < sizeof(expressions) / sizeof(expressions[0]); ++i)
        ck_assert_int_eq(nvrtcAddNameExpression(good, expressions[i]), NVRTC_SUCCESS);
    const nvrtcResult result = nvrtcCompileProgram(good, 2, options);
    ck_assert_msg(result == NVRTC_SUCCESS, "%s", log_of(good));
}

static void
end_good(void)
{
    end_program(&good);
    end_program(&fresh);
}

TEST_GROUP(calls, .start = compile_good, .stop = end_good, .timeout_s = 60);

/* ---- calls ---- */

static const char *const no_strings[] = {NULL};
static const char *const one_string[] = {"typedef float T;"};

static int
cancel(void *payload, void *unused)
{
    (void)unused;
    ++*(int *)payload;
    return 1;
}

static int
add_twice(void)
{
    nvrtcProgram program = new_program(source);
    int result = nvrtcAddNameExpression(program, "set");
    if (result == NVRTC_SUCCESS)
        result = nvrtcAddNameExpression(program, "set");
    end_program(&program);
    return result;
}

static int
create_empty(void)
{
    nvrtcProgram program = NULL;
    int result = nvrtcCreateProgram(&program, "", "", 0, NULL, NULL);
    end_program(&program);
    return result;
}

static int
compile_cancelled(void)
{
    int times = 0;
    nvrtcProgram program = new_program(source);
    int result = nvrtcSetFlowCallback(program, cancel, &times);
    if (result == NVRTC_SUCCESS)
        result = nvrtcCompileProgram(program, 0, NULL);
    ck_assert_int_gt(times, 0);
    end_program(&program);
    return result;
}

static int
destroy_null(void)
{
    nvrtcProgram program = NULL;
    return nvrtcDestroyProgram(&program);
}

#define CREATE(...) nvrtcCreateProgram(&(nvrtcProgram){NULL}, __VA_ARGS__)

/* Each row is evaluated in its turn: the expression is that of a case of the switch. */
#define CALLS(X)                                               \
    X(0, nvrtcVersion(&major, &minor))                         \
    X(3, nvrtcVersion(NULL, &minor))                           \
    X(3, nvrtcVersion(&major, NULL))                           \
    X(0, nvrtcGetNumSupportedArchs(&count))                    \
    X(3, nvrtcGetNumSupportedArchs(NULL))                      \
    X(0, nvrtcGetSupportedArchs(numbers))                      \
    X(3, nvrtcGetSupportedArchs(NULL))                         \
    X(4, nvrtcCreateProgram(NULL, source, "a", 0, NULL, NULL)) \
    X(3, CREATE(NULL, "a", 0, NULL, NULL))                     \
    X(3, CREATE(source, "a", -1, NULL, NULL))                  \
    X(3, CREATE(source, "a", 1, NULL, NULL))                   \
    X(3, CREATE(source, "a", 1, one_string, NULL))             \
    X(3, CREATE(source, "a", 1, NULL, one_string))             \
    X(3, CREATE(source, "a", 1, one_string, no_strings))       \
    X(3, CREATE(source, "a", 1, no_strings, one_string))       \
    X(0, create_empty())                                       \
    X(4, nvrtcDestroyProgram(NULL))                            \
    X(4, destroy_null())                                       \
    X(4, nvrtcCompileProgram(NULL, 0, NULL))                   \
    X(3, nvrtcCompileProgram(fresh, -1, NULL))                 \
    X(16, compile_cancelled())                                 \
    X(4, nvrtcSetFlowCallback(NULL, cancel, NULL))             \
    X(3, nvrtcSetFlowCallback(good, NULL, NULL))               \
    X(4, nvrtcAddNameExpression(NULL, "set"))                  \
    X(3, nvrtcAddNameExpression(fresh, NULL))                  \
    X(0, add_twice())                                          \
    X(8, nvrtcAddNameExpression(good, "set"))                  \
    X(0, nvrtcGetLoweredName(good, "set", &name))              \
    X(9, nvrtcGetLoweredName(fresh, "set", &name))             \
    X(10, nvrtcGetLoweredName(good, "n::copy<double>", &name)) \
    X(10, nvrtcGetLoweredName(good, " set", &name))            \
    X(3, nvrtcGetLoweredName(good, NULL, &name))               \
    X(3, nvrtcGetLoweredName(good, "set", NULL))               \
    X(4, nvrtcGetLoweredName(NULL, "set", &name))              \
    X(0, nvrtcGetPTXSize(good, &size))                         \
    X(0, nvrtcGetPTXSize(fresh, &size))                        \
    X(3, nvrtcGetPTXSize(good, NULL))                          \
    X(4, nvrtcGetPTXSize(NULL, &size))                         \
    X(0, nvrtcGetPTX(good, room))                              \
    X(0, nvrtcGetPTX(fresh, room))                             \
    X(3, nvrtcGetPTX(good, NULL))                              \
    X(4, nvrtcGetPTX(NULL, room))                              \
    X(0, nvrtcGetCUBINSize(good, &size))                       \
    X(0, nvrtcGetCUBINSize(fresh, &size))                      \
    X(3, nvrtcGetCUBINSize(good, NULL))                        \
    X(4, nvrtcGetCUBINSize(NULL, &size))                       \
    X(0, nvrtcGetCUBIN(good, room))                            \
    X(3, nvrtcGetCUBIN(good, NULL))                            \
    X(4, nvrtcGetCUBIN(NULL, room))                            \
    X(0, nvrtcGetLTOIRSize(good, &size))                       \
    X(3, nvrtcGetLTOIRSize(good, NULL))                        \
    X(4, nvrtcGetLTOIRSize(NULL, &size))                       \
    X(0, nvrtcGetLTOIR(good, room))                            \
    X(4, nvrtcGetLTOIR(NULL, room))                            \
    X(0, nvrtcGetOptiXIRSize(good, &size))                     \
    X(3, nvrtcGetOptiXIRSize(good, NULL))                      \
    X(0, nvrtcGetOptiXIR(good, room))                          \
    X(4, nvrtcGetOptiXIR(NULL, room))                          \
    X(0, nvrtcGetProgramLogSize(fresh, &size))                 \
    X(3, nvrtcGetProgramLogSize(good, NULL))                   \
    X(4, nvrtcGetProgramLogSize(NULL, &size))                  \
    X(3, nvrtcGetProgramLog(good, NULL))                       \
    X(4, nvrtcGetProgramLog(NULL, room))                       \
    X(0, nvrtcGetPCHHeapSize(&size))                           \
    X(3, nvrtcGetPCHHeapSize(NULL))                            \
    X(0, nvrtcSetPCHHeapSize(1 << 20))                         \
    X(13, nvrtcGetPCHCreateStatus(good))                       \
    X(4, nvrtcGetPCHCreateStatus(NULL))                        \
    X(0, nvrtcGetPCHHeapSizeRequired(good, &size))             \
    X(3, nvrtcGetPCHHeapSizeRequired(good, NULL))              \
    X(4, nvrtcGetPCHHeapSizeRequired(NULL, &size))

#define EXPECT(code, call)                                                                           \
    do {                                                                                             \
        const int result = call;                                                                     \
        ck_assert_msg(result == (code), "%s returns %s, not %s", #call, nvrtcGetErrorString(result), \
                      nvrtcGetErrorString(code));                                                    \
        ++rows;                                                                                      \
    } while (0);

TEST(calls_return_the_documented_codes)
{
    int rows = 0;
    CALLS(EXPECT)
    ck_assert_int_ge(rows, 60);
}

TEST(what_a_good_compilation_gives)
{
    static const struct {
        const char *expression, *lowered;
    } names[] = {
        {"n::copy<float>", "_ZN1n4copyIfEEvPT_PKS1_"},
        {"&n::copy<int>", "_ZN1n4copyIiEEvPT_PKS1_"},
        {"&n::table", "_ZN1n5tableE"},
        {"n::table", "_ZN1n5tableE"},
        {"&n::counter", "_ZN1n7counterE"},
        {"&total", "total"},
        {"set", "set"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        ck_assert_int_eq(nvrtcGetLoweredName(good, names[i].expression, &name), NVRTC_SUCCESS);
        ck_assert_str_eq(name, names[i].lowered);
    }
    ck_assert_int_eq(nvrtcVersion(&major, &minor), NVRTC_SUCCESS);
    ck_assert_int_eq(major, 13);
    ck_assert_int_eq(nvrtcGetNumSupportedArchs(&count), NVRTC_SUCCESS);
    ck_assert_int_eq(nvrtcGetSupportedArchs(numbers), NVRTC_SUCCESS);
    for (int i = 1; i < count; ++i)
        ck_assert_int_lt(numbers[i - 1], numbers[i]);
    nvrtcGetPTXSize(good, &size);
    nvrtcGetPTX(good, room);
    ck_assert_uint_eq(strlen(room) + 1, size);
    nvrtcGetCUBINSize(good, &size);
    ck_assert_uint_gt(size, 64);
    nvrtcGetLTOIRSize(good, &size);
    ck_assert_uint_eq(size, 0);
}

TEST(results_have_their_names)
{
    ck_assert_str_eq(nvrtcGetErrorString(NVRTC_SUCCESS), "NVRTC_SUCCESS");
    ck_assert_str_eq(nvrtcGetErrorString(NVRTC_ERROR_INVALID_OPTION), "NVRTC_ERROR_INVALID_OPTION");
    ck_assert_str_eq(nvrtcGetErrorString(NVRTC_ERROR_TIME_TRACE_FILE_WRITE_FAILED),
                     "NVRTC_ERROR_TIME_TRACE_FILE_WRITE_FAILED");
    ck_assert_str_eq(nvrtcGetErrorString((nvrtcResult)18), "NVRTC_ERROR unknown");
    ck_assert_str_eq(nvrtcGetErrorString((nvrtcResult)-1), "NVRTC_ERROR unknown");
}

/* ---- options ---- */

struct wrong_options {
    const char *first, *second; /* `second` may be NULL */
    nvrtcResult code;
    const char *log;
    bool only_here;
};

static const struct wrong_options wrong_options[] = {
    {"--foo", NULL, 5, "nvrtc: error: unrecognized option --foo found\n", false},
    {"-foo=3", NULL, 5, "nvrtc: error: unrecognized option -foo=3 found\n", false},
    {"foo", NULL, 5, "nvrtc: error: unrecognized option foo found\n", false},
    {"", NULL, 5, "nvrtc: error: unrecognized option  found\n", false},
    {"-O3", NULL, 5, "nvrtc: error: unrecognized option -O3 found\n", false},
    {"-x", "cu", 5, "nvrtc: error: unrecognized option -x found\n", false},
    {"--arch=sm_80", NULL, 5, "nvrtc: error: unrecognized option --arch=sm_80 found\n", false},
    {"-gpu-architecture=sm_80", NULL, 5, "nvrtc: error: unrecognized option -gpu-architecture=sm_80 found\n", false},
    {"--define-macro X", NULL, 5, "nvrtc: error: unrecognized option --define-macro X found\n", false},
    {"-std", "c++14", 5, "nvrtc: error: unrecognized option -std found\n", false},
    {"-std=c++98", NULL, 5, "nvrtc: error: invalid value for --std(-std)\n", false},
    {"-arch=compute_10", NULL, 5, "nvrtc: error: invalid value for --gpu-architecture (-arch)\n", false},
    {"-arch=75", NULL, 5, "nvrtc: error: invalid value for --gpu-architecture (-arch)\n", false},
    {"-arch", NULL, 5, "nvrtc: error: invalid value for --gpu-architecture (-arch)\n", false},
    {"--fmad=maybe", NULL, 5, "nvrtc: error: --fmad (-fmad) expects true or false\n", false},
    {"--fmad", NULL, 5, "nvrtc: error: --fmad (-fmad) expects true or false\n", false},
    {"-use_fast_math=1", NULL, 5, "nvrtc: error: --use_fast_math (-use_fast_math) does not accept any argument\n",
     false},
    {"-G=1", NULL, 5, "nvrtc: error: --device-debug (-G) does not accept any argument\n", false},
    {"-maxrregcount=x", NULL, 5, "nvrtc: error: --maxrregcount (-maxrregcount) expects an integer value\n", false},
    {"-dopt=off", NULL, 5, "nvrtc: error: invalid argument for option --dopt (-dopt): off\n", false},
    {"-Ofc=9", NULL, 5, "nvrtc: error: invalid argument for option --Ofast-compile (-Ofc): 9\n", false},
    {"-opt-info=foo", NULL, 5,
     "nvrtc: error: invalid optimization tag for option --optimization-info (-opt-info): foo\n", false},
    {"-jtd=200", NULL, 5, "nvrtc: error: Argument for --jump-table-density must be between [0-101]\n", false},
    {"-D 5X", NULL, 6, "Command-line error: invalid macro definition: 5X\n", false},
    {"-D", NULL, 6, "Command-line error: invalid macro definition: \n", false},
    {"-U", NULL, 6, "Command-line error: invalid macro undefinition: \n", false},
    {"-DA,B=1", NULL, 6, "Command-line error: invalid macro definition: A,B=1\n", false},
    {"-dlto", NULL, 5, "nvrtc: error: --dlink-time-opt is not supported by the stand-in: there is no LTO IR", true},
    {"--optix-ir", NULL, 5, "nvrtc: error: --optix-ir is not supported by the stand-in", true},
    {"-create-pch=x", NULL, 5, "nvrtc: error: --create-pch is not supported by the stand-in", true},
    {"-use-pch=x", NULL, 5, "nvrtc: error: --use-pch is not supported by the stand-in", true},
    {"--time=x.csv", NULL, 5, "nvrtc: error: --time is not supported by the stand-in", true},
};

TABLE_TEST(wrong_options_are_refused, wrong_options)
{
    const struct wrong_options *row = &wrong_options[_i];
    const char *const options[] = {row->first, row->second};
    if (row->only_here && !is_stand_in())
        return;
    nvrtcProgram program = new_program(source);
    ck_assert_int_eq(nvrtcCompileProgram(program, row->second != NULL ? 2 : 1, options), row->code);
    char *log = log_of(program);
    ck_assert_says(log, row->log);
    ck_assert_int_eq(nvrtcGetPTXSize(program, &size), NVRTC_SUCCESS);
    ck_assert_uint_eq(size, 1);
    free(log);
    end_program(&program);
}

TEST(options_are_taken)
{
    static const char *const options[] = {
        "--gpu-architecture=compute_90a",
        "-D=A=1",
        "-D B=2",
        "-DC",
        "--define-macro=D=4",
        "--define-macro",
        "E=5",
        "-D",
        "F=6",
        "-U C",
        "-DSUM(a,b)=((a)+(b))",
        "-I=/nowhere",
        "-I",
        "/nowhere",
        "--include-path=/nowhere",
        "--std=c++17",
        "-lineinfo",
        "-w",
        "--fmad",
        "false",
        "-ftz=true",
        "--prec-div=false",
        "-prec-sqrt",
        "true",
        "-rdc=true",
        "--device-c",
        "-ewp",
        "-dopt=on",
        "-Ofc=min",
        "-Xptxas",
        "-v",
        "-maxrregcount=32",
        "-extra-device-vectorization",
        "-modify-stack-limit=false",
        "-jtd=101",
        "-device-stack-protector=true",
        "-no-cache",
        "-frandom-seed=5",
        "-no-source-include",
        "-builtin-move-forward=true",
        "-builtin-initializer-list=true",
        "-restrict",
        "-default-device",
        "-device-int128",
        "-opt-info=inline",
        "-err-no",
        "-diag-suppress=177",
        "-diag-warn",
        "177",
        "-diag-error=20",
        "-brief-diag=true",
        "-split-compile=4",
        "--minimal",
        "-pch-verbose=false",
        "-pch-messages=false",
    };
    nvrtcProgram program =
        new_program("#if A != 1 || B != 2 || defined(C) || D != 4 || E != 5 || F != 6\n"
                    "#error macros\n"
                    "#endif\n"
                    "#if SUM(2, 3) != 5 || !defined(__CUDACC_RTC_INT128__) || __CUDA_ARCH__ < 750\n"
                    "#error macros\n"
                    "#endif\n"
                    "#if !defined(__CUDACC_RTC__) || !defined(__CUDACC__) || __cplusplus != 201703L\n"
                    "#error macros\n"
                    "#endif\n"
                    "int unmarked(int x) { return x; }\n"
                    "__global__ void k(int *x) { *x = unmarked(1); }\n");
    const nvrtcResult result = nvrtcCompileProgram(program, sizeof(options) / sizeof(options[0]), options);
    ck_assert_msg(result == NVRTC_SUCCESS, "%s", log_of(program));
    nvrtcGetCUBINSize(program, &size); /* of a virtual architecture there is none */
    ck_assert_uint_eq(size, 0);
    nvrtcGetPTXSize(program, &size);
    ck_assert_uint_gt(size, 64);
    end_program(&program);
}

/* ---- sources ---- */

struct wrong_source {
    const char *text, *expression; /* `expression` may be NULL */
    const char *log[4];
    bool only_here;
};

static const struct wrong_source wrong_sources[] = {
    {"\n__global__ void k(float *x) {\n    y = 1;\n}\n",
     NULL,
     {"test.cu(3): error: ", "y", "\n      y = 1;\n      ^\n",
      "\n1 error detected in the compilation of \"test.cu\".\n"},
     false},
    {"#include \"missing.h\"\n",
     NULL,
     {"test.cu(1): catastrophic error: cannot open source file \"missing.h\"\n  #include \"missing.h\"\n",
      "\n1 catastrophic error detected in the compilation of \"test.cu\".\nCompilation terminated.\n"},
     false},
    {"\n#error bad\n#error again\n",
     NULL,
     {"test.cu(2): catastrophic error: #error directive: bad\n  #error bad\n",
      "\n1 catastrophic error detected in the compilation of \"test.cu\".\nCompilation terminated.\n"},
     false},
    {"int host(int x) { return x; }\n__global__ void k(int *x) { *x = host(1); }\n",
     NULL,
     {"test.cu(1): error: ", "default-device"},
     false},
    {"template <class T> __global__ void k(T *x) { *x = 1; }\n__device__ int helper(int x) { return x; }\n",
     "helper",
     {"error: Name expression cannot form address of a non-__global__ function. Input name expression was: \"",
      "helper\""},
     false},
    {"template <class T> __global__ void k(T *x) { *x = 1; }\n", "k<nothing>", {"error: ", "nothing"}, false},
    {"__global__ void k(int *x) { asm(\"membar.gl;\"); *x = 1; }\n", NULL, {"test.cu(1): error: ", "inline PTX"}, true},
};

TABLE_TEST(wrong_sources_are_explained, wrong_sources)
{
    const struct wrong_source *row = &wrong_sources[_i];
    if (row->only_here && !is_stand_in())
        return;
    nvrtcProgram program = new_program(row->text);
    if (row->expression != NULL)
        ck_assert_int_eq(nvrtcAddNameExpression(program, row->expression), NVRTC_SUCCESS);
    ck_assert_int_eq(nvrtcCompileProgram(program, 0, NULL), NVRTC_ERROR_COMPILATION);
    char *log = log_of(program);
    for (size_t i = 0; i < 4 && row->log[i] != NULL; ++i)
        ck_assert_says(log, row->log[i]);
    nvrtcGetPTXSize(program, &size);
    ck_assert_uint_eq(size, 1);
    ck_assert_int_eq(nvrtcGetLoweredName(program, "k", &name), NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION);
    free(log);
    end_program(&program);
}

/* A source that was wrong, and one that was right, can be compiled again, with other options. */
TEST(a_program_is_compiled_again)
{
    static const char *const wrong[] = {"-DWRONG"}, *const right[] = {"-DRIGHT"};
    nvrtcProgram program = new_program("#ifdef WRONG\n#error wrong\n#endif\n__global__ void k(int *x) { *x = 1; }\n");
    ck_assert_int_eq(nvrtcCompileProgram(program, 1, wrong), NVRTC_ERROR_COMPILATION);
    ck_assert_int_eq(nvrtcCompileProgram(program, 1, right), NVRTC_SUCCESS);
    nvrtcGetProgramLogSize(program, &size);
    ck_assert_uint_eq(size, 1);
    ck_assert_int_eq(nvrtcCompileProgram(program, 1, wrong), NVRTC_ERROR_COMPILATION);
    nvrtcGetPTXSize(program, &size);
    ck_assert_uint_eq(size, 1);
    end_program(&program);
}
