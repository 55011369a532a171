/*
 * nvrtc.c - the exported functions of libnvrtc, with the codes that nvrtc.h documents; where it names several, that of
 * NVIDIA's library (13.0). One compiles: the others keep and hand out.
 *
 * Threads: each program belongs to one at a time; different programs are independent.
 */
#include "container.h"
#include "program.h"

#include <stdlib.h>
#include <string.h>

enum { MAGIC = 0x4e565243 };

static bool
is_program(nvrtcProgram program)
{
    return program != NULL && program->magic == MAGIC;
}

#define REQUIRE(condition, otherwise) \
    do {                              \
        if (!(condition))             \
            return (otherwise);       \
    } while (0)

#define REQUIRE_PROGRAM(program) REQUIRE(is_program(program), NVRTC_ERROR_INVALID_PROGRAM)
#define REQUIRE_INPUT(condition) REQUIRE(condition, NVRTC_ERROR_INVALID_INPUT)

/* ---- general ---- */

const char *
nvrtcGetErrorString(nvrtcResult result)
{
#define NAME(code) [code] = #code
    static const char *const names[] = {
        NAME(NVRTC_SUCCESS),
        NAME(NVRTC_ERROR_OUT_OF_MEMORY),
        NAME(NVRTC_ERROR_PROGRAM_CREATION_FAILURE),
        NAME(NVRTC_ERROR_INVALID_INPUT),
        NAME(NVRTC_ERROR_INVALID_PROGRAM),
        NAME(NVRTC_ERROR_INVALID_OPTION),
        NAME(NVRTC_ERROR_COMPILATION),
        NAME(NVRTC_ERROR_BUILTIN_OPERATION_FAILURE),
        NAME(NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION),
        NAME(NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION),
        NAME(NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID),
        NAME(NVRTC_ERROR_INTERNAL_ERROR),
        NAME(NVRTC_ERROR_TIME_FILE_WRITE_FAILED),
        NAME(NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED),
        NAME(NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED),
        NAME(NVRTC_ERROR_PCH_CREATE),
        NAME(NVRTC_ERROR_CANCELLED),
        NAME(NVRTC_ERROR_TIME_TRACE_FILE_WRITE_FAILED),
    };
#undef NAME
    const unsigned number = (unsigned)result;
    return number < sizeof(names) / sizeof(names[0]) ? names[number] : "NVRTC_ERROR unknown";
}

nvrtcResult
nvrtcVersion(int *major, int *minor)
{
    REQUIRE_INPUT(major != NULL && minor != NULL);
    *major = SOFTGPU_NVRTC_MAJOR;
    *minor = SOFTGPU_NVRTC_MINOR;
    return NVRTC_SUCCESS;
}

static const int architectures[] = {
#if SOFTGPU_NVRTC_MAJOR < 13
    50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 103, 120, 121,
#else
    75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121,
#endif
};

nvrtcResult
nvrtcGetNumSupportedArchs(int *count)
{
    REQUIRE_INPUT(count != NULL);
    *count = (int)(sizeof(architectures) / sizeof(architectures[0]));
    return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcGetSupportedArchs(int *numbers)
{
    REQUIRE_INPUT(numbers != NULL);
    memcpy(numbers, architectures, sizeof(architectures));
    return NVRTC_SUCCESS;
}

/* ---- programs ---- */

static void
forget_compilation(nvrtcProgram program)
{
    program->is_compiled = false;
    program->is_real = false;
    strings_free(&program->lowered);
    buffer_free(&program->log);
    buffer_free(&program->module);
}

static void
free_program(nvrtcProgram program)
{
    forget_compilation(program);
    strings_free(&program->headers);
    strings_free(&program->header_names);
    strings_free(&program->expressions);
    free(program->source);
    free(program->name);
    program->magic = 0;
    free(program);
}

nvrtcResult
nvrtcCreateProgram(nvrtcProgram *program_out, const char *source, const char *name, int header_count,
                   const char *const *headers, const char *const *names)
{
    REQUIRE(program_out != NULL, NVRTC_ERROR_INVALID_PROGRAM);
    REQUIRE_INPUT(source != NULL && header_count >= 0);
    REQUIRE_INPUT(header_count == 0 || (headers != NULL && names != NULL));
    for (int i = 0; i < header_count; ++i)
        REQUIRE_INPUT(headers[i] != NULL && names[i] != NULL);

    nvrtcProgram program = calloc(1, sizeof(*program));
    REQUIRE(program != NULL, NVRTC_ERROR_OUT_OF_MEMORY);
    program->magic = MAGIC;
    program->source = strdup(source);
    program->name = strdup(name != NULL && *name != '\0' ? name : "default_program");
    for (int i = 0; i < header_count; ++i) {
        strings_add(&program->headers, headers[i]);
        strings_add(&program->header_names, names[i]);
    }
    const bool has_all = program->source != NULL && program->name != NULL;
    if (!has_all || program->headers.failed || program->header_names.failed) {
        free_program(program);
        return NVRTC_ERROR_OUT_OF_MEMORY;
    }
    *program_out = program;
    return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcDestroyProgram(nvrtcProgram *program)
{
    REQUIRE(program != NULL && is_program(*program), NVRTC_ERROR_INVALID_PROGRAM);
    free_program(*program);
    *program = NULL;
    return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcAddNameExpression(nvrtcProgram program, const char *const expression)
{
    REQUIRE_PROGRAM(program);
    REQUIRE_INPUT(expression != NULL);
    REQUIRE(!program->is_compiled, NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION);
    strings_add(&program->expressions, expression);
    return program->expressions.failed ? NVRTC_ERROR_OUT_OF_MEMORY : NVRTC_SUCCESS;
}

nvrtcResult
nvrtcGetLoweredName(nvrtcProgram program, const char *const expression, const char **name)
{
    REQUIRE_PROGRAM(program);
    REQUIRE_INPUT(expression != NULL && name != NULL);
    REQUIRE(program->module.length > 0, NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION);
    for (size_t i = 0; i < program->expressions.count; ++i) {
        if (strcmp(program->expressions.items[i], expression) == 0) {
            *name = program->lowered.items[i];
            return NVRTC_SUCCESS;
        }
    }
    return NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
}

nvrtcResult
nvrtcSetFlowCallback(nvrtcProgram program, int (*callback)(void *, void *), void *payload)
{
    REQUIRE_PROGRAM(program);
    REQUIRE_INPUT(callback != NULL);
    program->callback = callback;
    program->payload = payload;
    return NVRTC_SUCCESS;
}

/* ---- compilation ---- */

static nvrtcResult
compile(nvrtcProgram program, const struct request *request)
{
    struct outcome outcome;
    struct cache cache;
    if (cache_find(&cache, program, request))
        return NVRTC_SUCCESS;
    nvrtcResult result = compile_run(program, request, &outcome);
    if (result == NVRTC_SUCCESS || result == NVRTC_ERROR_COMPILATION)
        log_translate(program, &outcome);
    if (result == NVRTC_SUCCESS) {
        program->module = outcome.module;
        outcome.module = (struct buffer){NULL, 0, 0, false};
        result = lowered_find(program);
    }
    if (result == NVRTC_SUCCESS && program->log.failed)
        result = NVRTC_ERROR_OUT_OF_MEMORY;
    if (result == NVRTC_SUCCESS)
        cache_keep(&cache, program, outcome.depends.data != NULL ? outcome.depends.data : "");
    else
        buffer_free(&program->module);
    cache_close(&cache);
    outcome_free(&outcome);
    return result;
}

static bool
is_cancelled(nvrtcProgram program)
{
    return program->callback != NULL && program->callback(program->payload, NULL) == 1;
}

nvrtcResult
nvrtcCompileProgram(nvrtcProgram program, int option_count, const char *const *options)
{
    struct request request;
    REQUIRE_PROGRAM(program);
    REQUIRE_INPUT(option_count >= 0);
    forget_compilation(program);
    program->is_compiled = true;
    nvrtcResult result = options_read(program, option_count, options, &request);
    if (result == NVRTC_SUCCESS && is_cancelled(program))
        result = NVRTC_ERROR_CANCELLED;
    if (result == NVRTC_SUCCESS) {
        program->is_real = request.is_real;
        result = compile(program, &request);
    }
    if (result == NVRTC_SUCCESS && is_cancelled(program)) {
        buffer_free(&program->module);
        result = NVRTC_ERROR_CANCELLED;
    }
    request_free(&request);
    return result;
}

/* ---- what a compilation gave ---- */

/* Each result has two functions: one for its size, one for its bytes. This writes a result. */
typedef void write_result(const struct _nvrtcProgram *program, struct buffer *result);

static nvrtcResult
get_size(nvrtcProgram program, write_result *write, size_t *bytes)
{
    struct buffer result = {NULL, 0, 0, false};
    REQUIRE_PROGRAM(program);
    REQUIRE_INPUT(bytes != NULL);
    write(program, &result);
    REQUIRE(!result.failed, NVRTC_ERROR_OUT_OF_MEMORY);
    *bytes = result.length;
    buffer_free(&result);
    return NVRTC_SUCCESS;
}

static nvrtcResult
get_bytes(nvrtcProgram program, write_result *write, char *to)
{
    struct buffer result = {NULL, 0, 0, false};
    REQUIRE_PROGRAM(program);
    REQUIRE_INPUT(to != NULL);
    write(program, &result);
    REQUIRE(!result.failed, NVRTC_ERROR_OUT_OF_MEMORY);
    if (result.length > 0)
        memcpy(to, result.data, result.length);
    buffer_free(&result);
    return NVRTC_SUCCESS;
}

/* A string, with its NUL; it is empty if there is no module. */
static void
write_ptx(const struct _nvrtcProgram *program, struct buffer *ptx)
{
    if (program->module.length > 0)
        container_write_text(program->module.data, program->module.length, ptx);
    buffer_add(ptx, "", 1);
}

/* Nothing if the program was compiled for no real architecture, or does not compile. */
static void
write_cubin(const struct _nvrtcProgram *program, struct buffer *cubin)
{
    if (program->is_real && program->module.length > 0)
        container_write_cubin(program->module.data, program->module.length, cubin);
}

static void
write_log(const struct _nvrtcProgram *program, struct buffer *log)
{
    buffer_add(log, program->log.data, program->log.length);
    buffer_add(log, "", 1);
}

/* LTO IR and OptiX IR, which the stand-in never makes: the options that ask for them are refused. */
static void
write_nothing(const struct _nvrtcProgram *program, struct buffer *nothing)
{
    (void)program, (void)nothing;
}

#define RESULT(name, write)                                               \
    nvrtcResult nvrtcGet##name##Size(nvrtcProgram program, size_t *bytes) \
    {                                                                     \
        return get_size(program, write, bytes);                           \
    }                                                                     \
    nvrtcResult nvrtcGet##name(nvrtcProgram program, char *to)            \
    {                                                                     \
        return get_bytes(program, write, to);                             \
    }
RESULT(PTX, write_ptx)
RESULT(CUBIN, write_cubin)
RESULT(ProgramLog, write_log)
RESULT(LTOIR, write_nothing)
RESULT(OptiXIR, write_nothing)

/* ---- precompiled headers: none are made ---- */

static _Atomic size_t pch_heap_bytes = 256u << 20;

nvrtcResult
nvrtcGetPCHHeapSize(size_t *bytes)
{
    REQUIRE_INPUT(bytes != NULL);
    *bytes = pch_heap_bytes;
    return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcSetPCHHeapSize(size_t bytes)
{
    pch_heap_bytes = bytes;
    return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcGetPCHCreateStatus(nvrtcProgram program)
{
    REQUIRE_PROGRAM(program);
    return NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED;
}

nvrtcResult
nvrtcGetPCHHeapSizeRequired(nvrtcProgram program, size_t *bytes)
{
    return get_size(program, write_nothing, bytes);
}
