/*
 * body.c - inside functions: shared memory, lambdas that use it, names that are spelled differently, features that are
 * refused.
 *
 *   __shared__ float tile[N], total;
 *     -> struct softgpu_shared_3 { float tile[N], total; }; auto &tile = ::softgpu::shared<softgpu_shared_3,
 * softgpu_kernel>().tile; ... extern __shared__ float dynamic[];
 *     -> struct softgpu_shared_4 { float dynamic[1]; }; float *const dynamic = ::softgpu::dynamic_shared<float>();
 *
 * The struct takes any declaration as it stands. What was static for CUDA is a local reference now, so a lambda has to
 * capture it, and by reference, or `[=]` would copy the array.
 */
#include "source.h"

#include <stdlib.h>
#include <string.h>

/* A shared variable and where its name is known. */
struct shared_name {
    uint32_t name, from, to;
    bool is_dynamic;
};

struct shared_names {
    struct shared_name *items;
    size_t count, capacity;
};

/* ---- __shared__ ---- */

static uint32_t
declaration_begin(const struct source *source, uint32_t i)
{
    while (i > 0 && !source_is(source, i - 1, ";") && !source_is(source, i - 1, "{") &&
           !source_is(source, i - 1, "}") && !source_is(source, i - 1, ")") && !source_is(source, i - 1, ":"))
        --i;
    /* Back over an attribute that stands first: __attribute__((aligned(16))) __shared__ ... */
    if (i > 0 && source_is(source, i - 1, ")") && source->code.tokens[i - 1].match > 0) {
        const uint32_t word = source->code.tokens[i - 1].match - 1;
        if (source_skip_attribute(source, word) == i)
            return declaration_begin(source, word);
    }
    return i;
}

static uint32_t
statement_end(const struct source *source, uint32_t i)
{
    while (i < source->code.count && !source_is(source, i, ";") && !source_is(source, i, "}"))
        i = source_next(source, i);
    return i;
}

/* The '}' of the block around i. */
static uint32_t
block_end(const struct source *source, uint32_t i)
{
    while (i < source->code.count && !source_is(source, i, "}"))
        i = source_next(source, i);
    return i;
}

static void
remember(struct shared_names *names, struct shared_name name)
{
    if (names->count == names->capacity) {
        names->capacity = 2 * (names->capacity + 8);
        names->items = memory_grow(names->items, names->capacity * sizeof(*names->items));
    }
    names->items[names->count++] = name;
}

/* Drops static, extern and __shared__ in from..to; says whether extern was there. */
static bool
drop_storage(struct source *source, uint32_t from, uint32_t to)
{
    static const char *const storage[] = {"static", "extern", "__shared__", NULL};
    bool is_extern = false;
    for (uint32_t i = from; i < to; i = source_next(source, i)) {
        is_extern |= source_is(source, i, "extern");
        if (source_is_one_of(source, i, storage))
            source_drop(source, i);
    }
    return is_extern;
}

/* The name declared in from..to, where only the first piece of a declaration has the type. */
static uint32_t
piece_name(const struct source *source, uint32_t from, uint32_t to, bool is_first)
{
    uint32_t unused;
    if (is_first)
        return source_declared_name(source, from, to, &unused);
    while (from < to && !source_is_word(source, from))
        ++from;
    return from;
}

static void
declare_dynamic(struct source *source, uint32_t name, uint32_t end, unsigned number, bool in_function)
{
    char *spelled = source_spell(source, name, name + 1);
    if (source_is(source, name + 1, "[") && source_is(source, name + 2, "]"))
        source_after(source, name + 1, "1");
    else
        source_error(source, name, "extern __shared__ '%s' is not an array of unknown size, '%s[]'", spelled, spelled);
    if (in_function)
        source_after(source, end,
                     " }; ::softgpu::element<decltype(softgpu_shared_%u::%s)> *const %s __attribute__((unused)) ="
                     " ::softgpu::dynamic_shared< ::softgpu::element<decltype(softgpu_shared_%u::%s)> >();",
                     number, spelled, spelled, number, spelled);
    else
        source_after(source, end,
                     " }; static __thread ::softgpu::element<decltype(softgpu_shared_%u::%s)> *%s"
                     " __attribute__((unused, tls_model(\"initial-exec\")));"
                     " static ::softgpu::dynamic_variable softgpu_dynamic_%u(&%s);",
                     number, spelled, spelled, number, spelled);
    free(spelled);
}

static void
rewrite_shared(struct source *source, uint32_t keyword, uint32_t limit, struct shared_names *names, bool in_function)
{
    const uint32_t begin = declaration_begin(source, keyword), end = statement_end(source, keyword);
    const unsigned number = source->shared_count++;
    if (end >= limit)
        return;
    const bool is_extern = drop_storage(source, begin, end);
    source_before(source, begin, "struct softgpu_shared_%u { ", number);
    if (!is_extern)
        source_after(source, end, " };");

    for (uint32_t from = begin; from < end;) {
        const uint32_t to = source_piece_end(source, from, end);
        const uint32_t name = piece_name(source, from, to, from == begin);
        if (name >= to) {
            source_error(source, keyword, "this __shared__ declaration is not understood: no name");
            return;
        }
        remember(names, (struct shared_name){
                            .name = name, .from = end, .to = block_end(source, end), .is_dynamic = is_extern});
        if (is_extern) {
            declare_dynamic(source, name, end, number, in_function);
        } else {
            char *spelled = source_spell(source, name, name + 1);
            source_after(
                source, end,
                " auto &%s __attribute__((unused)) = ::softgpu::shared<softgpu_shared_%u, softgpu_kernel>().%s;",
                spelled, number, spelled);
            free(spelled);
        }
        from = to + 1;
    }
}

/* ---- lambdas ---- */

static bool
mentions(const struct source *source, uint32_t from, uint32_t to, uint32_t word)
{
    for (uint32_t i = from; i < to; ++i) {
        if (source_same_word(source, i, word))
            return true;
    }
    return false;
}

/* Lets the lambda at `open` see the shared variables that it names. */
static void
capture_shared(struct source *source, uint32_t open, const struct shared_names *names)
{
    const uint32_t close = source->code.tokens[open].match, body = source_lambda_body(source, open);
    if (body == open)
        return;
    const bool all_by_reference =
        source_is(source, open + 1, "&") && (open + 2 == close || source_is(source, open + 2, ","));
    const bool all_by_copy = source_is(source, open + 1, "=");
    bool is_empty = close == open + 1;
    for (size_t n = 0; n < names->count; ++n) {
        const struct shared_name *shared = &names->items[n];
        const bool is_known = open >= shared->from && open <= shared->to;
        const bool is_captured =
            all_by_reference || (all_by_copy && shared->is_dynamic) || mentions(source, open + 1, close, shared->name);
        if (!is_known || is_captured || !mentions(source, body, source->code.tokens[body].match, shared->name))
            continue;
        char *spelled = source_spell(source, shared->name, shared->name + 1);
        source_before(source, close, "%s%s%s", is_empty ? "" : ", ", shared->is_dynamic ? "" : "&", spelled);
        is_empty = false;
        free(spelled);
    }
}

/* ---- names ---- */

/* The library's do not become vector instructions, because they care for signalling NaNs. */
static const char *const extreme_table[] = {"fmaxf", "fminf", "fmax", "fmin", NULL};

static const struct {
    const char *prefix; /* of a word that is called or named in device code */
    const char *message;
} refused_table[] = {
    {"asm", "inline PTX; write it in CUDA C++"},
    {"__asm", "inline PTX; write it in CUDA C++"},
    {"tex1D", "textures; read the array through a pointer"},
    {"tex2D", "textures; read the array through a pointer"},
    {"tex3D", "textures; read the array through a pointer"},
    {"texCubemap", "textures; read the array through a pointer"},
    {"surf1D", "surfaces; access the array through a pointer"},
    {"surf2D", "surfaces; access the array through a pointer"},
    {"surf3D", "surfaces; access the array through a pointer"},
    {"cudaGraphSetConditional", "conditional nodes of graphs; capture the work of each case"},
    {"cudaDeviceSynchronize", "runtime calls in device code (dynamic parallelism)"},
    {"cudaStreamCreateWithFlags", "runtime calls in device code (dynamic parallelism)"},
    {"cudaGetParameterBuffer", "runtime calls in device code (dynamic parallelism)"},
    {"cudaLaunchDevice", "runtime calls in device code (dynamic parallelism)"},
};

static void
refuse(struct source *source, uint32_t i)
{
    const struct token *token = &source->code.tokens[i];
    const char *word = source->code.text + token->begin;
    if (source_is(source, i, "tex1Dfetch"))
        return;
    for (size_t k = 0; k < sizeof(refused_table) / sizeof(refused_table[0]); ++k) {
        const size_t length = strlen(refused_table[k].prefix);
        if (token->length < length || memcmp(word, refused_table[k].prefix, length) != 0)
            continue;
        /* asm and its spellings are whole words; the others are calls or scopes. */
        const bool is_asm = refused_table[k].message[0] == 'i';
        if (is_asm ? token->length == length || (token->length == length + 2 && memcmp(word + length, "__", 2) == 0)
                   : source_is(source, i + 1, "(") || source_is(source, i + 1, "<") || source_is(source, i + 1, "::"))
            source_error(source, i, "softgpu-cc does not support '%.*s': %s", (int)token->length, word,
                         refused_table[k].message);
    }
}

static void
rename_word(struct source *source, uint32_t i)
{
    if (source_is(source, i, "__assert_fail") && source_is(source, i + 1, "(")) {
        source_before(source, i, "::softgpu_assert_fail"); /* what assert() becomes */
        source_drop(source, i);
        return;
    }
    if (!source_is_one_of(source, i, extreme_table) || !source_is(source, i + 1, "("))
        return;
    if (source_is(source, i - 1, ".") || source_is(source, i - 1, "->"))
        return;
    if (source_is(source, i - 1, "::")) {
        if (!source_is(source, i - 2, "std"))
            return;
        source_drop_range(source, i - 2, i);
    }
    source_before(source, i, "::softgpu::");
}

/* `__noinline__ f()`; inside __attribute__((...)) the word is the host compiler's own. */
static void
rewrite_noinline(struct source *source, uint32_t i)
{
    if (!source_is(source, i, "__noinline__") || source_is(source, i - 1, "(") || source_is(source, i - 1, ","))
        return;
    source_before(source, i, "__attribute__((noinline))");
    source_drop(source, i);
}

/* ---- all of it ---- */

void
body_rewrite(struct source *source, const struct function *function)
{
    const uint32_t begin = function->body + 1, end = source->code.tokens[function->body].match;
    const bool is_device = (function->flags & (FUNCTION_DEVICE | FUNCTION_KERNEL)) != 0;
    const bool is_device_only = is_device && (function->flags & FUNCTION_HOST) == 0;
    struct shared_names names = {0};
    for (uint32_t i = begin; i < end; ++i) {
        if (source_is(source, i, "__shared__"))
            rewrite_shared(source, i, end, &names, true);
    }
    for (uint32_t i = begin; i < end; ++i) {
        if (names.count > 0 && source_is_lambda(source, i))
            capture_shared(source, i, &names);
        if (!source_is_word(source, i))
            continue;
        if (is_device)
            rename_word(source, i);
        if (is_device_only)
            refuse(source, i);
    }
    free(names.items);
}

void
body_rewrite_outside(struct source *source)
{
    struct shared_names names = {0};
    for (uint32_t i = 0; i < source->code.count; ++i) {
        if (source->code.tokens[i].is_system)
            continue;
        rewrite_noinline(source, i);
        if (source_is(source, i, "__shared__") && !source->edits[i].drop)
            rewrite_shared(source, i, source->code.count, &names, false);
    }
    free(names.items);
}
