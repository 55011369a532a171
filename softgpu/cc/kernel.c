/*
 * kernel.c - __global__ void k(const float *x, int n) { BODY }  ->  a stub that carries the kernel; launch.h shows the
 * whole.
 *
 * The stub's parameters get the prefix softgpu_parameter_: those of the body, a lambda inside it, hide none of them,
 * and none is called like the stub's own variables.
 */
#include "source.h"

#include <stdlib.h>
#include <string.h>

/* What the stub's text needs from its parameters. */
struct parameters {
    struct text of_body;   /* ", decltype(softgpu_parameter_x) x, ..." */
    struct text types;     /* ", decltype(softgpu_parameter_x), ..." */
    struct text addresses; /* ", __builtin_addressof(softgpu_parameter_x), ..." */
};

static bool
is_pack(const struct source *source, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to && !source_is(source, i, "=");) {
        if (source_is(source, i, "..."))
            return true;
        i = source_is(source, i, "<") ? source_skip_angles(source, i, to) : source_next(source, i); /* tuple<T...> t */
    }
    return false;
}

/* In a later parameter, `decltype(x)` names the stub's x. */
static void
rename_earlier(struct source *source, uint32_t name, uint32_t from, uint32_t close)
{
    for (uint32_t i = from; i < close; ++i) {
        if (source_same_word(source, i, name) && !source_is(source, i - 1, "::") && !source_is(source, i - 1, ".") &&
            source_is(source, source_enclosing(source, i) - 1, "decltype"))
            source_before(source, i, "softgpu_parameter_");
    }
}

static void
read_parameter(struct source *source, struct parameters *parameters, uint32_t from, uint32_t to, unsigned number)
{
    uint32_t insert;
    const uint32_t name = source_declared_name(source, from, to, &insert);
    const char *dots = is_pack(source, from, to) ? "..." : "";
    char *inner = name < to ? source_spell(source, name, name + 1) : text_format("%s", "");
    char *outer = name < to ? text_format("softgpu_parameter_%s", inner) : text_format("softgpu_parameter_%u", number);

    if (name < to) {
        source_before(source, name, "%s", outer);
        source_drop(source, name);
        rename_earlier(source, name, to, source->code.tokens[source_enclosing(source, from)].match);
    } else {
        source_before(source, insert, " %s", outer);
    }
    text_append_format(&parameters->of_body, ", decltype(%s)%s %s", outer, dots, inner);
    text_append_format(&parameters->types, ", decltype(%s)%s", outer, dots);
    text_append_format(&parameters->addresses, ", __builtin_addressof(%s)%s", outer, dots);
    free(inner);
    free(outer);
}

static void
read_parameters(struct source *source, uint32_t open, struct parameters *parameters)
{
    const uint32_t close = source->code.tokens[open].match;
    text_append(&parameters->of_body, "", 0);
    text_append(&parameters->types, "", 0);
    text_append(&parameters->addresses, "", 0);
    if (close == open + 1 || (close == open + 2 && source_is(source, open + 1, "void")))
        return;
    unsigned number = 0;
    for (uint32_t from = open + 1; from < close;) {
        const uint32_t end = source_piece_end(source, from, close);
        read_parameter(source, parameters, from, end, number++);
        from = end + 1;
    }
}

/* The first argument of __launch_bounds__, or 1024. */
static char *
read_bounds(struct source *source, const struct function *function)
{
    for (uint32_t i = function->head; i < function->body; ++i) {
        if (source_is(source, i, "__cluster_dims__"))
            source_error(source, i,
                         "softgpu-cc does not support __cluster_dims__; use cudaLaunchAttributeClusterDimension");
        if (source_is(source, i, "__launch_bounds__") && source_is(source, i + 1, "(")) {
            const uint32_t close = source->code.tokens[i + 1].match;
            return source_spell(source, i + 2, source_piece_end(source, i + 2, close));
        }
    }
    return text_format("1024");
}

/* Whether one of the tokens from..to is a word of the table. */
static bool
any_of(const struct source *source, uint32_t from, uint32_t to, const char *const *table)
{
    for (uint32_t i = from; i < to; ++i) {
        if (source_is_one_of(source, i, table))
            return true;
    }
    return false;
}

/* Tokens from..to. */
struct tokens {
    uint32_t from, to;
};

/* The type of an element count, as the mode bits of run_kernel.h. */
static int
counter_type(const struct source *source, struct tokens type, struct tokens value)
{
    static const char *const of_64_bits[] = {"size_t", "uint64_t", "int64_t", "long", "ptrdiff_t", "ssize_t", NULL};
    static const char *const without_sign[] = {"unsigned", "size_t", "uint32_t", "uint64_t", "uint", "auto", NULL};
    return (any_of(source, type.from, type.to, without_sign) ? 4 : 0) |
           (any_of(source, value.from, value.to, of_64_bits) ? 8 : 0);
}

/*
 * In which type a function counts its elements: that of the first `T i = ... blockIdx ...;`, or
 * the function's own if its count is what it returns. -1 if the function has no such counter.
 */
static int
find_counter(const struct source *source, const struct function *function)
{
    static const char *const block_index[] = {"blockIdx", NULL};
    const uint32_t end = source->code.tokens[function->body].match;
    uint32_t begin = function->body + 1, equals = 0;
    for (uint32_t i = begin; i < end; ++i) {
        if (source_is(source, i, ";") || source_is(source, i, "{") || source_is(source, i, "}") ||
            (source_is(source, i, "(") && equals == 0 && !source_is(source, begin, "return"))) {
            const struct tokens value = {equals != 0 ? equals : begin, i};
            if (any_of(source, value.from, value.to, block_index)) {
                if (equals != 0)
                    return counter_type(source, (struct tokens){begin, equals}, value);
                if (source_is(source, begin, "return"))
                    return counter_type(source, (struct tokens){function->head, function->name}, value);
            }
            begin = i + 1;
            equals = 0;
        } else if (source_is(source, i, "=") && equals == 0) {
            equals = i;
        }
    }
    return -1;
}

/* The kernel's count, or that of a function which it calls. This only helps the compiler to recognise the count; wrong
 * guesses cost speed. */
static int
guess_counter(const struct source *source, const struct function *function)
{
    int counter = find_counter(source, function);
    if (counter < 0 && function->findings.index_function != 0)
        counter = find_counter(source, &source->functions[function->findings.index_function - 1]);
    return counter < 0 ? 0 : counter;
}

/* The first parameters of a kernel's code, without the names in `hidden`. */
static char *
index_parameters(unsigned hidden)
{
    static const char *const parameters[][2] = {
        {"::uint3", "threadIdx"}, {"::uint3", "blockIdx"}, {"::dim3", "blockDim"}, {"::dim3", "gridDim"}};
    struct text text = {0};
    for (size_t k = 0; k < sizeof(parameters) / sizeof(parameters[0]); ++k)
        text_append_format(&text, "%sconst %s %s __attribute__((unused))", k > 0 ? ", " : "", parameters[k][0],
                           (hidden >> k & 1) != 0 ? "" : parameters[k][1]);
    return text.data;
}

/* How the stub runs the kernel: MODE_... of run_kernel.h. */
static int
mode_of(const struct source *source, const struct function *function, bool is_strided)
{
    if (function->findings.may_wait)
        return 3;
    const int asks = function->findings.asks_indices ? 2 : 0, strides = is_strided ? 16 : 0;
    return asks | guess_counter(source, function) | strides;
}

void
kernel_rewrite(struct source *source, const struct function *function)
{
    struct parameters parameters = {0};
    read_parameters(source, function->params, &parameters);
    char *bounds = read_bounds(source, function);
    const bool is_strided = !function->declares_indices && stride_rewrite(source, function);
    const int mode = mode_of(source, function, is_strided);
    char *indices = index_parameters(function->hidden_indices);
    /* A parameter's name can be declared again in a block of its own. */
    const char *inner = function->declares_indices ? "{" : "", *inner_end = function->declares_indices ? "}" : "";
    /* The kernels of a module are described without a call of their stubs. */
    char *limit =
        source->is_module ? text_format("enum : unsigned { max_threads = (%s) }; ", bounds) : text_format("%s", "");
    source_after(
        source, function->body,
        " struct softgpu_kernel { char tag; %s}; auto softgpu_body = [](%s%s%s) __attribute__((always_inline)) "
        "-> void {%s",
        limit, indices, is_strided ? ", ::softgpu::turn &softgpu_turn" : "", parameters.of_body.data, inner);
    free(indices);
    free(limit);
    source_before(source, source->code.tokens[function->body].match,
                  "%s}; ::softgpu::stub<%d, softgpu_kernel, decltype(softgpu_body)%s>(softgpu_body, "
                  "__PRETTY_FUNCTION__, (%s)%s); ",
                  inner_end, mode, parameters.types.data, bounds, parameters.addresses.data);
    text_free(&parameters.of_body);
    text_free(&parameters.types);
    text_free(&parameters.addresses);
    free(bounds);
}
