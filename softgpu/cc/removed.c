/*
 * removed.c - what CUDA 13 no longer has: calls, warp functions without a mask, fields of cudaDeviceProp. An error that
 * names what to write instead; with --allow-removed, that is written here.
 *
 *     cudaThreadSynchronize()   ->   cudaDeviceSynchronize()
 *     __shfl(x, lane)           ->   __shfl_sync(MASK, x, lane), with the lanes that are there together
 *     prop.clockRate            ->   ::softgpu::removed_property(cudaDevAttrClockRate, prop)
 *     tuple.get<0>()            ->   ::softgpu::removed_get<0>(tuple); only where it is allowed: Thrust's was a member
 *
 * A name that the user declares is the user's. An object counts as a cudaDeviceProp if the declaration of its name says
 * so; the host compiler reports the others. softgpu/removed.h has the overloads that are gone.
 */
#include "removed.h"
#include "source.h"

#include <stdlib.h>
#include <string.h>

/* The lanes that come to this place together: what __activemask() becomes. */
#define MASK "[] { static const char site = 0; return ::softgpu_active_mask(&site); }()"

const struct removed_call removed_calls[] = {
    {"cudaThreadSynchronize", "cudaDeviceSynchronize"},
    {"cudaThreadExit", "cudaDeviceReset"},
    {"cudaThreadSetLimit", "cudaDeviceSetLimit"},
    {"cudaThreadGetLimit", "cudaDeviceGetLimit"},
    {"cudaThreadSetCacheConfig", "cudaDeviceSetCacheConfig"},
    {"cudaThreadGetCacheConfig", "cudaDeviceGetCacheConfig"},
    {NULL, NULL},
};

static const char *const warp_table[] = {"__shfl", "__shfl_up", "__shfl_down", "__shfl_xor",
                                         "__any",  "__all",     "__ballot",    NULL};

static const struct {
    const char *field, *attribute;
} field_table[] = {
    {"clockRate", "cudaDevAttrClockRate"},
    {"memoryClockRate", "cudaDevAttrMemoryClockRate"},
    {"deviceOverlap", "cudaDevAttrGpuOverlap"},
    {"kernelExecTimeoutEnabled", "cudaDevAttrKernelExecTimeout"},
    {"computeMode", "cudaDevAttrComputeMode"},
    {"maxTexture1DLinear", "cudaDevAttrMaxTexture1DLinearWidth"},
    {"singleToDoublePrecisionPerfRatio", "cudaDevAttrSingleToDoublePrecisionPerfRatio"},
};

/* ---- calls ---- */

/* Whether i stands among the members of a class. */
static bool
is_member(const struct source *source, uint32_t i)
{
    static const char *const class_keys[] = {"class", "struct", "union", NULL};
    uint32_t open = source_enclosing(source, i);
    if (!source_is(source, open, "{"))
        return false;
    while (open-- > 0 && !source_is(source, open, ";") && !source_is(source, open, "}") &&
           !source_is(source, open, "{")) {
        if (source_is_one_of(source, open, class_keys))
            return true;
    }
    return false;
}

/* Whether the word at i, before a '(', is declared there: `cudaError_t f(`. */
static bool
is_prototype(const struct source *source, uint32_t i)
{
    static const char *const before_calls[] = {"return", "else", "case",      "throw",    "do", "and",
                                               "or",     "not",  "co_return", "co_yield", NULL};
    return i > 0 && source_is_word(source, i - 1) && !source_is_one_of(source, i - 1, before_calls);
}

static bool
is_users(const struct source *source, uint32_t i)
{
    for (uint32_t k = 0; k < source->code.count; ++k) {
        if (!source->code.tokens[k].is_system && source_same_word(source, k, i) && source_is(source, k + 1, "(") &&
            is_prototype(source, k) && !is_member(source, k))
            return true;
    }
    return false;
}

/* Of a call that is not of a member, nor of what a namespace holds. */
static bool
is_global_call(const struct source *source, uint32_t i)
{
    if (!source_is(source, i + 1, "(") || (i > 0 && (source_is(source, i - 1, ".") || source_is(source, i - 1, "->"))))
        return false;
    const bool has_scope =
        i > 1 && source_is(source, i - 1, "::") && (source_is_word(source, i - 2) || source_is(source, i - 2, ">"));
    return !has_scope || source_is(source, i - 2, "return");
}

static void
replace_call(struct source *source, uint32_t i, const char *name, const char *replacement, const char *first_argument)
{
    if (!is_global_call(source, i) || is_prototype(source, i) || is_users(source, i))
        return;
    if (!source->allows_removed) {
        source_error(source, i, "CUDA 13 has no '%s': use '%s', or compile with --allow-removed", name, replacement);
        return;
    }
    source_before(source, i, "%s", replacement);
    source_drop(source, i);
    source_after(source, i + 1, "%s", first_argument);
}

static void
look_at_call(struct source *source, uint32_t i)
{
    for (const struct removed_call *call = removed_calls; call->name != NULL; ++call) {
        if (source_is(source, i, call->name))
            replace_call(source, i, call->name, call->replacement, "");
    }
    for (const char *const *name = warp_table; *name != NULL; ++name) {
        if (!source_is(source, i, *name))
            continue;
        char *replacement = text_format("%s_sync", *name);
        replace_call(source, i, *name, replacement, MASK ", ");
        free(replacement);
    }
}

/* ---- fields ---- */

/* Whether the word at i is being declared; *is_ours_p: as a cudaDeviceProp, or a pointer to or a container of them. */
static bool
is_declaration(const struct source *source, uint32_t i, bool *is_ours_p)
{
    static const char *const behind[] = {";", ",", "=", ")", "(", "{", "[", ":", NULL};
    static const char *const begins[] = {";", "{", "}", "(", "=", NULL};
    static const char *const not_types[] = {"return", "else", "case", "throw", "new", "delete", "sizeof", NULL};
    if (i == 0 || source_is(source, i - 1, ".") || source_is(source, i - 1, "->"))
        return false;
    if (!source_is_one_of(source, i + 1, behind))
        return false;
    const bool is_later = source_is(source, i - 1, ",");
    const bool is_parameter = source_is(source, source_enclosing(source, i), "(");
    for (uint32_t k = i; k-- > 0;) {
        if (source_is(source, k, "cudaDeviceProp")) {
            *is_ours_p = true;
            return true;
        }
        if (source_is_one_of(source, k, begins) || (is_parameter && source_is(source, k, ",")))
            break;
    }
    *is_ours_p = false;
    uint32_t type = i - 1;
    while (type > 0 && (source_is(source, type, "*") || source_is(source, type, "&")))
        --type;
    return !is_later && ((source_is_word(source, type) && !source_is_one_of(source, type, not_types)) ||
                         source_is(source, type, ">"));
}

/* Whether the object before the '.' or "->" at `sign` is a cudaDeviceProp: by the nearest declaration of its name,
 * first of those before it. */
static bool
is_properties(const struct source *source, uint32_t sign)
{
    uint32_t name = sign - 1;
    if (source_is(source, name, "]"))
        name = source->code.tokens[name].match - 1;
    while (source_is(source, name, ")"))
        --name;
    bool is_ours = false;
    for (uint32_t i = name; i-- > 0;) {
        if (source_same_word(source, i, name) && is_declaration(source, i, &is_ours))
            return is_ours;
    }
    for (uint32_t i = name + 1; i < source->code.count; ++i) {
        if (source_same_word(source, i, name) && is_declaration(source, i, &is_ours))
            return is_ours;
    }
    return false;
}

static void
look_at_field(struct source *source, uint32_t i)
{
    const bool is_arrow = source_is(source, i - 1, "->");
    if (!is_arrow && !source_is(source, i - 1, "."))
        return;
    for (size_t k = 0; k < sizeof(field_table) / sizeof(field_table[0]); ++k) {
        if (!source_is(source, i, field_table[k].field) || !is_properties(source, i - 1))
            continue;
        if (!source->allows_removed) {
            source_error(source, i,
                         "CUDA 13 has no '%s' in cudaDeviceProp: use 'cudaDeviceGetAttribute(&value, %s, device)', or "
                         "compile with --allow-removed",
                         field_table[k].field, field_table[k].attribute);
            return;
        }
        source_before_all(source, source_postfix_begin(source, i - 1), "::softgpu::removed_property(%s, %s",
                          field_table[k].attribute, is_arrow ? "*" : "");
        source_drop_range(source, i - 1, i + 1);
        source_after(source, i, ")");
    }
}

/* "get<3>()" at i. */
static bool
is_get_call(const struct source *source, uint32_t i)
{
    if (!source_is(source, i, "get") || !source_is(source, i + 1, "<"))
        return false;
    if (source->code.tokens[i + 2].kind != TOKEN_NUMBER || !source_is(source, i + 3, ">"))
        return false;
    return source_is(source, i + 4, "(") && source_is(source, i + 5, ")");
}

/* At `get` of `tuple.get<0>()`. */
static void
look_at_get(struct source *source, uint32_t i)
{
    const uint32_t dot = source_is(source, i - 1, "template") ? i - 2 : i - 1;
    const bool is_arrow = source_is(source, dot, "->"), is_member = is_arrow || source_is(source, dot, ".");
    if (!source->allows_removed || !is_member || !is_get_call(source, i))
        return;
    char *number = source_spell(source, i + 2, i + 3);
    source_before_all(source, source_postfix_begin(source, dot), "::softgpu::removed_get<%s>(%s", number,
                      is_arrow ? "*" : "");
    free(number);
    source_drop_range(source, dot, i + 5);
}

void
removed_rewrite(struct source *source)
{
    for (uint32_t i = 0; i < source->code.count; ++i) {
        if (source->code.tokens[i].is_system || !source_is_word(source, i))
            continue;
        look_at_call(source, i);
        if (i > 1) {
            look_at_field(source, i);
            look_at_get(source, i);
        }
    }
}
