/*
 * declare.c - first pass: scopes, functions, and the linkage of device code.
 *
 * Without -rdc=true, __device__ functions and variables belong to one source file, for nvcc: two files may each have a
 * `__device__ float f(float)` of their own. For a host compiler these would be one function, and which one, the linker
 * would choose. So they become static here. Kernels keep their linkage: their stubs are host functions for nvcc too.
 * And as nvcc 13 does it, they are hidden from other shared libraries, which may have kernels of the same names.
 */
#include "source.h"

#include <stdlib.h>
#include <string.h>

enum scope { SCOPE_NAMESPACE, SCOPE_CLASS };

/* What a declaration says of itself, from its first token to the ';' or '{' that ends it. */
struct declaration {
    uint32_t begin, end;
    enum scope scope;
    uint32_t device;    /* the __device__ token, or end */
    uint32_t constant;  /* __constant__ */
    uint32_t managed;   /* __managed__ */
    uint32_t name;      /* of a function: the word before its parameters */
    uint32_t params;    /* of a function: the '(', or end */
    uint32_t equals;    /* first '=' outside brackets, or end */
    uint32_t colon;     /* the ':' of a constructor's initialisers, or end */
    uint32_t class_key; /* class, struct, union, enum, or end */
    unsigned flags;     /* enum function_flags */
    bool is_namespace, is_enum, is_static, is_extern, is_inline, is_constexpr, is_friend, is_alias;
    bool is_specialisation; /* template <> */
    bool is_instantiation;  /* template f<int>(int) */
};

static void scan(struct source *source, uint32_t from, uint32_t to, enum scope scope);

/* ---- reading a declaration ---- */

static void
read_word(const struct source *source, struct declaration *d, uint32_t i)
{
    static const struct {
        const char *word;
        size_t place; /* of a bool in struct declaration */
    } switches[] = {
        {"namespace", offsetof(struct declaration, is_namespace)},
        {"static", offsetof(struct declaration, is_static)},
        {"extern", offsetof(struct declaration, is_extern)},
        {"inline", offsetof(struct declaration, is_inline)},
        {"__inline__", offsetof(struct declaration, is_inline)},
        {"__inline", offsetof(struct declaration, is_inline)},
        {"constexpr", offsetof(struct declaration, is_constexpr)},
        {"friend", offsetof(struct declaration, is_friend)},
        {"using", offsetof(struct declaration, is_alias)},
        {"typedef", offsetof(struct declaration, is_alias)},
        {"enum", offsetof(struct declaration, is_enum)},
    };
    static const char *const class_keys[] = {"class", "struct", "union", "enum", NULL};

    for (size_t k = 0; k < sizeof(switches) / sizeof(switches[0]); ++k) {
        if (source_is(source, i, switches[k].word))
            *(bool *)((char *)d + switches[k].place) = true;
    }
    if (source_is_one_of(source, i, class_keys) && d->class_key == d->end && d->params == d->end)
        d->class_key = i;
    if (source_is(source, i, "__device__")) {
        d->flags |= FUNCTION_DEVICE;
        d->device = i;
    } else if (source_is(source, i, "__host__")) {
        d->flags |= FUNCTION_HOST;
    } else if (source_is(source, i, "__global__")) {
        d->flags |= FUNCTION_KERNEL;
    } else if (source_is(source, i, "__constant__")) {
        d->constant = i;
    } else if (source_is(source, i, "__managed__")) {
        d->managed = i;
    }
}

/* At `template`: after its parameter list. */
static uint32_t
read_template(const struct source *source, struct declaration *d, uint32_t i)
{
    if (!source_is(source, i + 1, "<")) {
        d->is_instantiation = true;
        return i + 1;
    }
    d->flags |= FUNCTION_TEMPLATE;
    if (source_is(source, i + 2, ">"))
        d->is_specialisation = true;
    return source_skip_angles(source, i + 1, d->end);
}

/* At a '(' that may open the parameters of a function. */
static void
read_group(const struct source *source, struct declaration *d, uint32_t i)
{
    if (d->params != d->end || d->equals != d->end || i == d->begin)
        return;
    if (source_is(source, i + 1, "*") || source_is(source, i + 1, "&"))
        return; /* a pointer to a function, not a function */
    uint32_t name = i - 1;
    if (source_is(source, name, ">"))
        name = source_open_angle(source, name, d->begin) - 1;
    d->params = i;
    d->name = name;
}

static struct declaration
read_declaration(const struct source *source, uint32_t begin, uint32_t end, enum scope scope)
{
    struct declaration d = {.begin = begin,
                            .end = end,
                            .scope = scope,
                            .device = end,
                            .constant = end,
                            .managed = end,
                            .name = end,
                            .params = end,
                            .equals = end,
                            .colon = end,
                            .class_key = end};
    for (uint32_t i = begin; i < end;) {
        const uint32_t behind = source_skip_attribute(source, i);
        if (behind > i) {
            i = behind;
        } else if (source_is(source, i, "template")) {
            i = read_template(source, &d, i);
        } else if (source_is(source, i, "operator")) {
            d.flags |= FUNCTION_UNNAMED;
            /* Behind the operator's sign: operator(), operator[], operator<, operator==, operator float. */
            i = source_is(source, i + 1, "(") ? source_next(source, i + 1) : i + 1;
            while (i < end && !source_is(source, i, "("))
                ++i;
        } else if (source_is(source, i, "<")) {
            i = source_skip_angles(source, i, end);
        } else if (source_is(source, i, "(")) {
            read_group(source, &d, i);
            i = source_next(source, i);
        } else {
            if (source_is(source, i, "=") && d.equals == end)
                d.equals = i;
            if (source_is(source, i, ":") && d.params != end && d.colon == end)
                d.colon = i;
            if (source_is(source, i, "~"))
                d.flags |= FUNCTION_UNNAMED;
            if (source_is_word(source, i) && d.equals == end) /* a lambda after it has a __device__ of its own */
                read_word(source, &d, i);
            i = source_next(source, i);
        }
    }
    return d;
}

/* ---- linkage ---- */

static bool
is_device_only(const struct declaration *d)
{
    return (d->flags & FUNCTION_DEVICE) != 0 && (d->flags & (FUNCTION_HOST | FUNCTION_KERNEL)) == 0;
}

/* What stands in the place of __device__ or __global__, so after template<...>. */
static void
put_for_keyword(struct source *source, const struct declaration *d, const char *words)
{
    for (uint32_t i = d->begin; i < d->end; ++i) {
        if (source_is(source, i, "__device__") || source_is(source, i, "__global__")) {
            source_before(source, i, "%s ", words);
            return;
        }
    }
}

static void
link_function(struct source *source, const struct declaration *d, bool has_body)
{
    const bool is_kernel = (d->flags & FUNCTION_KERNEL) != 0;
    const bool is_member = d->scope == SCOPE_CLASS || (d->name > d->begin && source_is(source, d->name - 1, "::"));
    const bool is_template = (d->flags & FUNCTION_TEMPLATE) != 0;
    const bool is_ours = is_device_only(d) ||
                         (is_kernel && is_template && !d->is_specialisation && !is_member && !source->shares_templates);
    if (d->is_friend || d->is_instantiation)
        return;
    if (is_kernel && !d->is_static && !d->is_specialisation && (!is_ours || source->is_relocatable))
        put_for_keyword(source, d, "__attribute__((visibility(\"hidden\")))");
    if (!is_ours || source->is_relocatable || d->is_extern)
        return;
    if (d->is_specialisation || is_member) {
        if (has_body && d->scope == SCOPE_NAMESPACE && !d->is_inline && !d->is_constexpr &&
            (d->is_specialisation || !is_template))
            source_before(source, d->device != d->end ? d->device : d->begin, "inline ");
        return;
    }
    if (!d->is_static)
        put_for_keyword(source, d, "static __attribute__((unused))");
}

/* Whether a variable of this name is declared extern somewhere in the file: then its definition cannot be static. */
static bool
is_declared_extern(const struct source *source, uint32_t name)
{
    const struct code *code = &source->code;
    const struct token *wanted = &code->tokens[name];
    for (uint32_t i = 1; i < name; ++i) {
        const struct token *token = &code->tokens[i];
        if (token->is_system || token->kind != TOKEN_WORD || token->length != wanted->length ||
            memcmp(code->text + token->begin, code->text + wanted->begin, wanted->length) != 0)
            continue;
        for (uint32_t k = i; k > 0 && !source_is(source, k - 1, ";") && !source_is(source, k - 1, "}") &&
                             !source_is(source, k - 1, "{");
             --k) {
            if (source_is(source, k - 1, "extern"))
                return true;
        }
    }
    return false;
}

/* Makes a device variable known to the runtime: an object beside it whose constructor does that. A module's variable is
 * known by its name for the linker, which a type that is declared beside it has the scope of. */
static void
register_variable(struct source *source, const struct declaration *d, uint32_t name)
{
    const unsigned number = source->variable_count++;
    const char *const is_static = d->is_static ? "true" : "false", *const is_constant =
                                                                       d->constant != d->end ? "true" : "false";
    char *spelled = source_spell(source, name, name + 1);
    char *known = text_format("\"%s\"", spelled);
    if (source->is_module) {
        free(known);
        known = text_format("::softgpu::variable_name(typeid(softgpu_scope_%u *).name(), \"%s\", %s)", number, spelled,
                            is_static);
        source_after(source, d->end, " struct softgpu_scope_%u;", number);
    }
    source_after(source, d->end,
                 " static ::softgpu::variable softgpu_variable_%u(__builtin_addressof(%s), sizeof(%s), %s, %s%s);",
                 number, spelled, spelled, known, is_constant, d->managed != d->end ? ", true" : "");
    free(spelled);
    free(known);
}

/* In a later piece of `T a, *b[2], c`: the first word. */
static uint32_t
first_word(const struct source *source, uint32_t from, uint32_t to)
{
    while (from < to && !source_is_word(source, from))
        ++from;
    return from;
}

static void
link_variable(struct source *source, const struct declaration *d)
{
    if (d->scope != SCOPE_NAMESPACE || d->is_alias || (d->flags & FUNCTION_TEMPLATE) != 0 || d->is_extern)
        return;
    uint32_t unused;
    uint32_t piece_end = source_piece_end(source, d->begin, d->end);
    uint32_t name = source_declared_name(source, d->begin, piece_end, &unused);
    if (name == piece_end)
        return; /* C::member: named through its class, and not by cudaMemcpyToSymbol here */
    uint32_t keyword = d->device != d->end ? d->device : d->constant;
    if (keyword == d->end)
        keyword = d->managed;
    if (!d->is_static && !d->is_inline && !d->is_constexpr && !source->is_relocatable &&
        !is_declared_extern(source, name))
        source_before(source, keyword, "static ");
    for (;;) {
        if (name < piece_end)
            register_variable(source, d, name);
        if (piece_end >= d->end)
            return;
        const uint32_t from = piece_end + 1;
        piece_end = source_piece_end(source, from, d->end);
        name = first_word(source, from, piece_end);
    }
}

static void
add_function(struct source *source, const struct declaration *d)
{
    if (source->function_count == source->function_capacity) {
        source->function_capacity = 2 * (source->function_capacity + 32);
        source->functions = memory_grow(source->functions, source->function_capacity * sizeof(*source->functions));
    }
    struct function *function = &source->functions[source->function_count++];
    *function =
        (struct function){.head = d->begin, .name = d->name, .params = d->params, .body = d->end, .flags = d->flags};

    /* A constructor has no type before its name: nothing but qualifiers, or `C::C`. */
    if (d->scope == SCOPE_CLASS && d->colon != d->end)
        function->flags |= FUNCTION_UNNAMED;
}

/* Whether the file defines a function of this name. */
static bool
is_defined(const struct source *source, uint32_t name)
{
    for (uint32_t i = 0; i + 1 < source->code.count; ++i)
        if (!source->code.tokens[i].is_system && source_same_word(source, i, name) && source_is(source, i + 1, "(") &&
            source_is(source, source_next(source, i + 1), "{"))
            return true;
    return false;
}

/* Whether it declares a function that is CUDA's own once more, as programs for old GPUs do that leave the definition of
 * atomicAdd(double *, double) to a condition. CUDA's are templates here, so the declaration would be of another one. */
static bool
is_of_cuda(const struct source *source, const struct declaration *d)
{
    static const char *const names[] = {"atomicAdd", "atomicSub", "atomicExch", "atomicMin", "atomicMax", "atomicInc",
                                        "atomicDec", "atomicCAS", "atomicAnd",  "atomicOr",  "atomicXor", NULL};
    return is_device_only(d) && d->scope == SCOPE_NAMESPACE && (d->flags & FUNCTION_TEMPLATE) == 0 &&
           !source->is_relocatable && source_is_one_of(source, d->name, names) && !is_defined(source, d->name);
}

/* Sources for NVRTC have no <stdint.h>, and define its types, of which the stand-in's headers have a definition
 * already: theirs is left out, for `long` and `long long` are of one size. */
static bool
is_standard_type(const struct source *source, const struct declaration *d)
{
    static const char *const names[] = {"int8_t",   "int16_t",  "int32_t",  "int64_t",   "uint8_t",   "uint16_t",
                                        "uint32_t", "uint64_t", "intptr_t", "uintptr_t", "ptrdiff_t", NULL};
    const bool is_using = source_is(source, d->begin, "using") && source_is(source, d->begin + 2, "=");
    const uint32_t name = is_using ? d->begin + 1 : d->end - 1;
    return (is_using || source_is(source, d->begin, "typedef")) && source_is_one_of(source, name, names) &&
           source_enclosing(source, d->begin) == source->code.count;
}

/* What NVRTC makes of a function without __device__ or __global__: it refuses it, or takes it for one of the device. */
static void
declare_unmarked(struct source *source, struct declaration *d)
{
    const bool is_marked = (d->flags & (FUNCTION_DEVICE | FUNCTION_HOST | FUNCTION_KERNEL)) != 0;
    if (is_marked || d->class_key != d->end || d->equals != d->end)
        return;
    if (source->device_is_default)
        d->flags |= FUNCTION_DEVICE;
    else
        source_error(source, d->begin,
                     "a function without __device__ is a function of the host, which NVRTC refuses: write __device__, "
                     "or compile with -default-device");
}

/* A declaration is complete: `end` is its ';', or the '{' of a function's body. */
static void
declare(struct source *source, struct declaration *d, bool has_body)
{
    if (source->is_module && d->is_alias && is_standard_type(source, d)) {
        source_drop_range(source, d->begin, d->end);
        return;
    }
    if (source->is_module && has_body)
        declare_unmarked(source, d);
    if (has_body)
        add_function(source, d);
    const bool is_variable = d->params == d->end;
    if (!has_body && !is_variable && is_of_cuda(source, d)) {
        source_drop_range(source, d->begin, d->end);
        return;
    }
    if ((d->flags & (FUNCTION_DEVICE | FUNCTION_KERNEL)) != 0 && !is_variable)
        link_function(source, d, has_body);
    else if (is_variable && ((d->flags & FUNCTION_DEVICE) != 0 || d->constant != d->end || d->managed != d->end))
        link_variable(source, d);
}

/* ---- scopes ---- */

enum brace { BRACE_NAMESPACE, BRACE_CLASS, BRACE_FUNCTION, BRACE_MEMBER_INIT, BRACE_VALUE, BRACE_OTHER };

static enum brace
classify_brace(const struct source *source, const struct declaration *d)
{
    const uint32_t previous = d->end > d->begin ? d->end - 1 : d->begin;
    if (d->is_namespace)
        return BRACE_NAMESPACE;
    if (d->is_extern && d->end == d->begin + 2)
        return BRACE_NAMESPACE; /* extern "C" { */
    if (d->equals != d->end)
        return BRACE_VALUE;
    if (d->params != d->end) {
        /* C(int n) : a(n), b{n} {...}: the brace after a member's name initialises it. */
        if (d->colon != d->end && (source_is_word(source, previous) || source_is(source, previous, ">")))
            return BRACE_MEMBER_INIT;
        return BRACE_FUNCTION;
    }
    if (d->class_key != d->end)
        return d->is_enum ? BRACE_VALUE : BRACE_CLASS;
    return d->end > d->begin ? BRACE_VALUE : BRACE_OTHER; /* int x{3}; */
}

static bool
is_access_label(const struct source *source, uint32_t i)
{
    return source_is(source, i, ":") && i > 0 &&
           (source_is(source, i - 1, "public") || source_is(source, i - 1, "private") ||
            source_is(source, i - 1, "protected"));
}

static void
scan(struct source *source, uint32_t from, uint32_t to, enum scope scope)
{
    uint32_t begin = from;
    for (uint32_t i = from; i < to;) {
        if (source->code.tokens[i].is_system) {
            begin = ++i;
            continue;
        }
        if (source_is(source, i, ";")) {
            struct declaration d = read_declaration(source, begin, i, scope);
            declare(source, &d, false);
            begin = ++i;
        } else if (is_access_label(source, i) || source_is(source, i, "}")) {
            begin = ++i;
        } else if (source_is(source, i, "{")) {
            const uint32_t close = source->code.tokens[i].match;
            struct declaration d = read_declaration(source, begin, i, scope);
            const enum brace brace = classify_brace(source, &d);
            if (brace == BRACE_NAMESPACE || brace == BRACE_CLASS)
                scan(source, i + 1, close, brace == BRACE_CLASS ? SCOPE_CLASS : SCOPE_NAMESPACE);
            if (brace == BRACE_FUNCTION)
                declare(source, &d, true);
            i = close + 1;
            if (brace != BRACE_VALUE && brace != BRACE_MEMBER_INIT && brace != BRACE_CLASS)
                begin = i;
            if (brace == BRACE_CLASS && source_is(source, i, ";"))
                begin = i;
        } else {
            i = source_next(source, i);
        }
    }
}

void
declare_all(struct source *source)
{
    scan(source, 0, source->code.count, SCOPE_NAMESPACE);
}

/* ---- the first pass of a source ---- */

bool
source_open(struct source *source, const char *text, size_t length, const struct lex_paths *paths)
{
    if (!lex(text, length, paths, &source->code, &source->files))
        return false;
    const size_t bytes = ((size_t)source->code.count + 1) * sizeof(*source->edits);
    source->edits = memset(memory_grow(NULL, bytes), 0, bytes);
    declare_all(source);
    return true;
}
