/*
 * options.c - the options of nvrtcCompileProgram: the table below is the whole of what NVRTC 13.0 knows (nvrtc.h,
 * "Supported Compile Options"). A row says what becomes of an option here; what is not in the table is refused in
 * NVRTC's words, and what the stand-in cannot do is refused by name.
 */
#include "program.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NEWEST_ARCHITECTURE = 800 }; /* __CUDA_ARCH__ of softgpu-cc */

enum value {
    VALUE_NONE,
    VALUE_SWITCH, /* true or false: after '=' or as the next option */
    VALUE_NUMBER, /* the same, a number */
    VALUE_ANY,    /* the same, any */
    VALUE_AFTER,  /* after '=' only */
    VALUE_GLUED,  /* as VALUE_ANY, or glued to the short name, with blanks or without */
};

struct reading {
    struct _nvrtcProgram *program;
    struct request *request;
    const char *architecture; /* of an -arch before, or NULL */
};

struct row {
    const char *long_name, *short_name; /* without dashes; NULL: no short name */
    enum value value;
    /* NULL: accepted, and means nothing on a CPU. Else NVRTC_SUCCESS, or an error that the log explains. */
    nvrtcResult (*apply)(struct reading *reading, const struct row *row, const char *value);
    const char *for_compiler; /* of pass(): the option of softgpu-cc */
};

static nvrtcResult refuse(struct reading *reading, const char *format, ...) __attribute__((format(printf, 2, 3)));

static nvrtcResult
refuse(struct reading *reading, const char *format, ...)
{
    char *line = NULL;
    va_list values;
    va_start(values, format);
    if (vasprintf(&line, format, values) < 0)
        line = NULL;
    va_end(values);
    if (line != NULL)
        buffer_add_format(&reading->program->log, "nvrtc: error: %s\n", line);
    free(line);
    return NVRTC_ERROR_INVALID_OPTION;
}

/* A value with which the compiler itself, and not NVRTC, finds fault. */
static nvrtcResult
fail_command(struct reading *reading, const char *words, const char *value)
{
    buffer_add_format(&reading->program->log,
                      "Command-line error: %s %s\n\n1 catastrophic error detected in the compilation of \"%s\".\n"
                      "Compilation terminated.\n",
                      words, value, reading->program->name);
    return NVRTC_ERROR_COMPILATION;
}

/* ---- what becomes of an option ---- */

/* As an option of softgpu-cc that has no value. */
static nvrtcResult
pass(struct reading *reading, const struct row *row, const char *value)
{
    (void)value;
    strings_add(&reading->request->arguments, row->for_compiler);
    return NVRTC_SUCCESS;
}

static bool
has_file(const char *folder, const char *name)
{
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof(path), "%s/%s", folder, name);
    return length > 0 && (size_t)length < sizeof(path) && access(path, R_OK) == 0;
}

/* A folder of CUDA's headers is softgpu-cc's own matter. */
static nvrtcResult
include_dir(struct reading *reading, const struct row *row, const char *value)
{
    (void)row;
    if (*value != '\0' && !has_file(value, "cuda_runtime_api.h"))
        strings_add_format(&reading->request->arguments, "--softgpu-module-dir=%s", value);
    return NVRTC_SUCCESS;
}

static nvrtcResult
include_file(struct reading *reading, const struct row *row, const char *value)
{
    (void)row;
    if (*value == '\0')
        return fail_command(reading, "cannot open source file", "\"\"");
    strings_add(&reading->request->arguments, "-include");
    strings_add(&reading->request->arguments, value);
    return NVRTC_SUCCESS;
}

static nvrtcResult
pass_switch(struct reading *reading, const struct row *row, const char *value)
{
    strings_add_format(&reading->request->arguments, "%s=%s", row->for_compiler, value);
    return NVRTC_SUCCESS;
}

/* A macro. The headers of the stand-in, which are read before the source, do not see it. */
static nvrtcResult
macro(struct reading *reading, const struct row *row, const char *value)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    const char *const end = value + strspn(value, letters);
    const bool is_word = end > value && strchr("0123456789", *value) == NULL;
    const bool defines = strcmp(row->for_compiler, "-D") == 0;
    const bool ends_well = *end == '\0' || (defines && (*end == '=' || *end == '('));
    if (!is_word || !ends_well)
        return fail_command(reading, defines ? "invalid macro definition:" : "invalid macro undefinition:", value);
    const int length = (int)strcspn(value, "\n"); /* NVRTC: a definition ends with its line */
    const char *equals = memchr(value, '=', (size_t)length);
    const int name_length = equals != NULL ? (int)(equals - value) : length;
    if (!defines)
        buffer_add_format(&reading->request->macros, "#undef %s\n", value);
    else if (equals == NULL)
        buffer_add_format(&reading->request->macros, "#define %.*s 1\n", name_length, value);
    else
        buffer_add_format(&reading->request->macros, "#define %.*s %.*s\n", name_length, value,
                          length - name_length - 1, equals + 1);
    return NVRTC_SUCCESS;
}

/* -device-int128, -device-float128: both types are there in any case. */
static nvrtcResult
define(struct reading *reading, const struct row *row, const char *value)
{
    (void)value;
    buffer_add_format(&reading->request->macros, "#define %s 1\n", row->for_compiler);
    return NVRTC_SUCCESS;
}

static bool
is_one_of(const char *value, const char *const *table)
{
    for (; *table != NULL; ++table) {
        if (strcmp(value, *table) == 0)
            return true;
    }
    return false;
}

static nvrtcResult
standard(struct reading *reading, const struct row *row, const char *value)
{
    static const char *const known[] = {"c++03", "c++11", "c++14", "c++17", "c++20", NULL};
    (void)row;
    if (!is_one_of(value, known))
        return refuse(reading, "invalid value for --std(-std)");
    /* The headers of device code ask for C++11. */
    strings_add_format(&reading->request->arguments, "-std=%s", strcmp(value, "c++03") == 0 ? "c++11" : value);
    return NVRTC_SUCCESS;
}

/* "sm_90a": what NVRTC 13.0 or 12.9 knows. Without effect on code for a CPU, but on what there is to get. */
static nvrtcResult
architecture(struct reading *reading, const struct row *row, const char *value)
{
    static const char *const numbers[] = {
#if SOFTGPU_NVRTC_MAJOR < 13
        "50",
        "52",
        "53",
        "60",
        "61",
        "62",
        "70",
        "72",
#endif
        "75",
        "80",
        "86",
        "87",
        "88",
        "89",
        "90",
        "90a",
        "100",
        "100f",
        "100a",
        "101",
        "101f",
        "101a",
        "103",
        "103f",
        "103a",
        "110",
        "110f",
        "110a",
        "120",
        "120f",
        "120a",
        "121",
        "121f",
        "121a",
        NULL
    };
    const bool is_real = strncmp(value, "sm_", 3) == 0, is_virtual = strncmp(value, "compute_", 8) == 0;
    const char *number = value + (is_real ? 3 : 8);
    (void)row;
    if ((!is_real && !is_virtual) || !is_one_of(number, numbers))
        return refuse(reading, "invalid value for --gpu-architecture (-arch)");
    if (reading->architecture != NULL && strcmp(reading->architecture, number) != 0)
        buffer_add_format(
            &reading->program->log,
            "nvrtc: warning: \"--gpu-architecture(-arch)=%s\" followed by \"--gpu-architecture(-arch)=%s\"\n",
            reading->architecture, number);
    reading->architecture = number;
    reading->request->architecture = atoi(number) * 10;
    reading->request->is_real = is_real;
    return NVRTC_SUCCESS;
}

static nvrtcResult
no_source_include(struct reading *reading, const struct row *row, const char *value)
{
    (void)row, (void)value;
    reading->request->has_own_folder = false;
    return NVRTC_SUCCESS;
}

static nvrtcResult
no_cache(struct reading *reading, const struct row *row, const char *value)
{
    (void)row, (void)value;
    reading->request->uses_cache = false;
    return NVRTC_SUCCESS;
}

static nvrtcResult
only_on(struct reading *reading, const struct row *row, const char *value)
{
    if (strcmp(value, "on") == 0)
        return NVRTC_SUCCESS;
    return refuse(reading, "invalid argument for option --%s (-%s): %s", row->long_name, row->short_name, value);
}

static nvrtcResult
fast_compile(struct reading *reading, const struct row *row, const char *value)
{
    static const char *const levels[] = {"0", "min", "mid", "max", NULL};
    if (is_one_of(value, levels))
        return NVRTC_SUCCESS;
    return refuse(reading, "invalid argument for option --%s (-%s): %s", row->long_name, row->short_name, value);
}

static nvrtcResult
optimisation_info(struct reading *reading, const struct row *row, const char *value)
{
    if (strcmp(value, "inline") == 0)
        return NVRTC_SUCCESS;
    return refuse(reading, "invalid optimization tag for option --%s (-%s): %s", row->long_name, row->short_name,
                  value);
}

static nvrtcResult
jump_tables(struct reading *reading, const struct row *row, const char *value)
{
    if (atoi(value) >= 0 && atoi(value) <= 101)
        return NVRTC_SUCCESS;
    return refuse(reading, "Argument for --%s must be between [0-101]", row->long_name);
}

/* ---- what the stand-in cannot do ---- */

#define REFUSAL(name, reason)                                                                     \
    static nvrtcResult name(struct reading *reading, const struct row *row, const char *value)    \
    {                                                                                             \
        (void)value;                                                                              \
        return refuse(reading, "--%s is not supported by the stand-in: " reason, row->long_name); \
    }
REFUSAL(no_lto, "there is no LTO IR; compile without it, and load what nvrtcGetPTX or nvrtcGetCUBIN gives")
REFUSAL(no_optix, "there is no OptiX")
REFUSAL(no_pch, "there are no precompiled headers; compiled programs are kept (SOFTGPU_NVRTC_CACHE)")
REFUSAL(no_file, "it writes no files")

/* ---- the table ---- */

static const struct row table[] = {
    {"gpu-architecture", "arch", VALUE_ANY, architecture, NULL},
    {"std", "std", VALUE_AFTER, standard, NULL},
    {"define-macro", "D", VALUE_GLUED, macro, "-D"},
    {"undefine-macro", "U", VALUE_GLUED, macro, "-U"},
    {"include-path", "I", VALUE_GLUED, include_dir, NULL},
    {"pre-include", "include", VALUE_ANY, include_file, NULL},
    {"no-source-include", "no-source-include", VALUE_NONE, no_source_include, NULL},
    {"device-debug", "G", VALUE_NONE, pass, "-G"},
    {"use_fast_math", "use_fast_math", VALUE_NONE, pass, "-use_fast_math"},
    {"fmad", "fmad", VALUE_SWITCH, pass_switch, "-fmad"},
    {"disable-warnings", "w", VALUE_NONE, pass, "-w"},
    {"device-int128", "device-int128", VALUE_NONE, define, "__CUDACC_RTC_INT128__"},
    {"device-float128", "device-float128", VALUE_NONE, define, "__CUDACC_RTC_FLOAT128__"},
    {"no-cache", "no-cache", VALUE_NONE, no_cache, NULL},

    /* What says something about a GPU's instructions, or about NVRTC itself. */
    {"device-c", "dc", VALUE_NONE, NULL, NULL},
    {"device-w", "dw", VALUE_NONE, NULL, NULL},
    {"relocatable-device-code", "rdc", VALUE_SWITCH, NULL, NULL},
    {"extensible-whole-program", "ewp", VALUE_NONE, NULL, NULL},
    {"generate-line-info", "lineinfo", VALUE_NONE, NULL, NULL},
    {"dopt", "dopt", VALUE_ANY, only_on, NULL},
    {"Ofast-compile", "Ofc", VALUE_ANY, fast_compile, NULL},
    {"ptxas-options", "Xptxas", VALUE_ANY, NULL, NULL},
    {"maxrregcount", "maxrregcount", VALUE_NUMBER, NULL, NULL},
    {"ftz", "ftz", VALUE_SWITCH, NULL, NULL},
    {"prec-sqrt", "prec-sqrt", VALUE_SWITCH, NULL, NULL},
    {"prec-div", "prec-div", VALUE_SWITCH, NULL, NULL},
    {"extra-device-vectorization", "extra-device-vectorization", VALUE_NONE, NULL, NULL},
    {"modify-stack-limit", "modify-stack-limit", VALUE_SWITCH, NULL, NULL},
    {"jump-table-density", "jtd", VALUE_NUMBER, jump_tables, NULL},
    {"device-stack-protector", "device-stack-protector", VALUE_SWITCH, NULL, NULL},
    {"frandom-seed", "frandom-seed", VALUE_ANY, NULL, NULL},
    {"builtin-move-forward", "builtin-move-forward", VALUE_SWITCH, NULL, NULL},
    {"builtin-initializer-list", "builtin-initializer-list", VALUE_SWITCH, NULL, NULL},
    {"restrict", "restrict", VALUE_NONE, NULL, NULL},
    {"device-as-default-execution-space", "default-device", VALUE_NONE, pass, "--softgpu-module-default"},
    {"optimization-info", "opt-info", VALUE_ANY, optimisation_info, NULL},
    {"display-error-number", "err-no", VALUE_NONE, NULL, NULL},
    {"no-display-error-number", "no-err-no", VALUE_NONE, NULL, NULL},
    {"diag-error", "diag-error", VALUE_ANY, NULL, NULL},
    {"diag-suppress", "diag-suppress", VALUE_ANY, NULL, NULL},
    {"diag-warn", "diag-warn", VALUE_ANY, NULL, NULL},
    {"brief-diagnostics", "brief-diag", VALUE_SWITCH, NULL, NULL},
    {"split-compile", "split-compile", VALUE_NUMBER, NULL, NULL},
    {"fdevice-syntax-only", "fdevice-syntax-only", VALUE_NONE, NULL, NULL},
    {"minimal", "minimal", VALUE_NONE, NULL, NULL},
    {"pch", "pch", VALUE_NONE, NULL, NULL}, /* automatic: the compiler chooses to make none */
    {"pch-dir", "pch-dir", VALUE_ANY, NULL, NULL},
    {"pch-verbose", "pch-verbose", VALUE_SWITCH, NULL, NULL},
    {"pch-messages", "pch-messages", VALUE_SWITCH, NULL, NULL},
    {"instantiate-templates-in-pch", "instantiate-templates-in-pch", VALUE_SWITCH, NULL, NULL},

    {"dlink-time-opt", "dlto", VALUE_NONE, no_lto, NULL},
    {"gen-opt-lto", "gen-opt-lto", VALUE_NONE, no_lto, NULL},
    {"optix-ir", "optix-ir", VALUE_NONE, no_optix, NULL},
    {"create-pch", "create-pch", VALUE_ANY, no_pch, NULL},
    {"use-pch", "use-pch", VALUE_ANY, no_pch, NULL},
    {"time", "time", VALUE_AFTER, no_file, NULL},
    {"fdevice-time-trace", "fdevice-time-trace", VALUE_AFTER, no_file, NULL},
};

/* ---- reading ---- */

/* Whether `option` is `dashes` and `name`, up to its '=' or its end; *rest_p: what follows. */
static bool
begins(const char *option, const char *dashes, const char *name, const char **rest_p)
{
    const size_t dash_count = strlen(dashes), length = name != NULL ? strlen(name) : 0;
    if (name == NULL || strncmp(option, dashes, dash_count) != 0 || strncmp(option + dash_count, name, length) != 0)
        return false;
    *rest_p = option + dash_count + length;
    return **rest_p == '\0' || **rest_p == '=';
}

static const struct row *
find_row(const char *option, const char **rest_p)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); ++i) {
        const struct row *row = &table[i];
        if (begins(option, "--", row->long_name, rest_p) || begins(option, "-", row->short_name, rest_p))
            return row;
        if (row->value == VALUE_GLUED && option[0] == '-' && option[1] == row->short_name[0]) {
            *rest_p = option + 2;
            return row;
        }
    }
    return NULL;
}

static nvrtcResult
check_value(struct reading *reading, const struct row *row, const char *value)
{
    const bool is_number = *value != '\0' && value[strspn(value, "0123456789")] == '\0';
    const bool is_switch = strcmp(value, "true") == 0 || strcmp(value, "false") == 0;
    if (row->value == VALUE_NUMBER && !is_number)
        return refuse(reading, "--%s (-%s) expects an integer value", row->long_name, row->short_name);
    if (row->value == VALUE_SWITCH && !is_switch)
        return refuse(reading, "--%s (-%s) expects true or false", row->long_name, row->short_name);
    return NVRTC_SUCCESS;
}

/* Reads the option at *i_p, and its value, which may be the next. */
static nvrtcResult
read_option(struct reading *reading, int count, const char *const *options, int *i_p)
{
    const char *option = options[*i_p], *value = NULL;
    const struct row *row = option != NULL ? find_row(option, &value) : NULL;
    if (row == NULL || (row->value == VALUE_AFTER && *value == '\0'))
        return refuse(reading, "unrecognized option %s found", option != NULL ? option : "(null)");
    if (row->value == VALUE_NONE && *value != '\0')
        return refuse(reading, "--%s (-%s) does not accept any argument", row->long_name, row->short_name);
    if (row->value != VALUE_NONE && *value == '\0' && *i_p + 1 < count && options[*i_p + 1] != NULL)
        value = options[++*i_p];
    else if (*value == '=')
        ++value;
    if (row->value == VALUE_GLUED)
        value += strspn(value, " \t");
    nvrtcResult result = check_value(reading, row, value);
    if (result == NVRTC_SUCCESS && row->apply != NULL)
        result = row->apply(reading, row, value);
    return result;
}

nvrtcResult
options_read(struct _nvrtcProgram *program, int count, const char *const *options, struct request *request)
{
    struct reading reading = {program, request, NULL};
    *request = (struct request){.architecture = 750, .has_own_folder = true, .uses_cache = true};
    if (count > 0 && options == NULL)
        return refuse(&reading, "%d options, and no array of them", count);
    for (int i = 0; i < count; ++i) {
        const nvrtcResult result = read_option(&reading, count, options, &i);
        if (result != NVRTC_SUCCESS)
            return result;
    }
    /* Code for newer GPUs than softgpu-cc's is written for their own instructions. */
    strings_add_format(&request->arguments, "-DSOFTGPU_MODULE=%d",
                       request->architecture < NEWEST_ARCHITECTURE ? request->architecture : NEWEST_ARCHITECTURE);
    return request->arguments.failed || request->macros.failed ? NVRTC_ERROR_OUT_OF_MEMORY : NVRTC_SUCCESS;
}

void
request_free(struct request *request)
{
    strings_free(&request->arguments);
    buffer_free(&request->macros);
}
