/*
 * indices.c - threadIdx, blockIdx, blockDim and gridDim where they are not the parameters of a kernel's code
 * (launch.h):
 *
 *     __device__ int f() { return threadIdx.x; }   ->   ... return ::softgpu_here->thread.x; ...
 *
 * In device functions, in lambdas with __device__, in what stands outside of functions (a member's initialiser), and in
 * those parts of a kernel that do not see its variables: lambdas without a capture default, local classes, ::threadIdx.
 * In host functions the words are left alone: `dim3 blockDim(256)` is an ordinary variable there, and so is one that a
 * device function declares.
 */
#include "source.h"

#include "text.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *word, *member;
} index_table[] = {
    {"threadIdx", "thread"},
    {"blockIdx", "block"},
    {"blockDim", "block_dim"},
    {"gridDim", "grid_dim"},
};
enum { INDICES = sizeof(index_table) / sizeof(index_table[0]) };

/* Whose the words are at a token. */
enum owner {
    OWNER_NOBODY,   /* outside of functions: CUDA's where one of its parts is named */
    OWNER_DEVICE,   /* CUDA's */
    OWNER_KERNEL,   /* parameters of the kernel's code */
    OWNER_HOST,     /* the user's */
    OWNER_DECLARED, /* the first of INDICES: one of the words is declared there, and is the user's */
};

static int
index_at(const struct source *source, uint32_t i)
{
    for (int k = 0; k < INDICES; ++k) {
        if (source_is(source, i, index_table[k].word))
            return k;
    }
    return -1;
}

/* Whether the word at i is being declared: `uint3 threadIdx`, `const dim3 &blockDim`. */
static bool
is_declared_here(const struct source *source, uint32_t i)
{
    static const char *const not_types[] = {"return", "else", "case",   "throw", "co_return", "co_yield",
                                            "and",    "or",   "sizeof", "not",   NULL};
    static const char *const behind[] = {",", ")", ";", "=", "{", "[", "("};
    uint32_t type = i - 1;
    while (type > 0 && (source_is(source, type, "&") || source_is(source, type, "*") || source_is(source, type, "&&")))
        --type;
    if ((!source_is_word(source, type) && !source_is(source, type, ">")) || source_is_one_of(source, type, not_types))
        return false;
    for (size_t k = 0; k < sizeof(behind) / sizeof(behind[0]); ++k) {
        if (source_is(source, i + 1, behind[k]))
            return true;
    }
    return false;
}

static void
own(unsigned char *owners, uint32_t from, uint32_t to, unsigned owner)
{
    memset(owners + from, (int)owner, to - from);
}

static void
own_function(const struct source *source, const struct function *function, unsigned char *owners)
{
    const uint32_t end = source->lexed.tokens[function->body].match;
    unsigned owner = OWNER_DEVICE;
    if ((function->flags & FUNCTION_KERNEL) != 0)
        owner = OWNER_KERNEL;
    else if ((function->flags & FUNCTION_DEVICE) == 0)
        owner = OWNER_HOST;
    for (uint32_t i = function->params; owner == OWNER_DEVICE && i < end; ++i) {
        const int index = index_at(source, i);
        if (index >= 0 && is_declared_here(source, i)) {
            own(owners, function->head, end, OWNER_DECLARED + (unsigned)index);
            return;
        }
    }
    own(owners, function->head, end, owner);
}

/* `[&]`, `[=]`, `[&, x]`: sees the variables around it. */
static bool
has_capture_default(const struct source *source, uint32_t open)
{
    return source_is(source, open + 1, "=") ||
           (source_is(source, open + 1, "&") && (source_is(source, open + 2, "]") || source_is(source, open + 2, ",")));
}

static bool
is_device_lambda(const struct source *source, uint32_t open, uint32_t body)
{
    for (uint32_t i = source->lexed.tokens[open].match; i < body; ++i) {
        if (source_is(source, i, "__device__"))
            return true;
    }
    return false;
}

/* The '{' of the class whose key stands at i, or i. */
static uint32_t
class_body(const struct source *source, uint32_t i)
{
    static const char *const class_keys[] = {"struct", "class", "union", NULL};
    static const char *const ends[] = {";", "(", ")", "=", ",", "*", "&", ">"};
    if (!source_is_one_of(source, i, class_keys))
        return i;
    for (uint32_t k = i + 1; k < source->lexed.count; k = source_next(source, k)) {
        if (source_is(source, k, "{"))
            return k;
        for (size_t e = 0; e < sizeof(ends) / sizeof(ends[0]); ++e) {
            if (source_is(source, k, ends[e]))
                return i;
        }
    }
    return i;
}

/* The '{' around i, or 0 if there is none or a '(' is nearer: the parameters of a prototype. */
static uint32_t
enclosing_brace(const struct source *source, uint32_t i)
{
    while (i-- > 0) {
        if (source_is(source, i, "(") || source_is(source, i, "["))
            return 0;
        if (source_is(source, i, "{"))
            return i;
        if (source_is(source, i, ")") || source_is(source, i, "]") || source_is(source, i, "}"))
            i = source->lexed.tokens[i].match;
    }
    return 0;
}

/* A class with a member of that name: its functions mean the member. Those that are defined outside of it are given to
 * the host too, and the compiler finds the member, or nothing and says so. */
static void
own_members(const struct source *source, uint32_t i, int index, unsigned char *owners)
{
    const bool is_later =
        source_is(source, i - 1, ",") && (source_is(source, i + 1, ";") || source_is(source, i + 1, ","));
    const uint32_t open = is_later || is_declared_here(source, i) ? enclosing_brace(source, i) : 0;
    if (open == 0)
        return;
    const uint32_t close = source->lexed.tokens[open].match;
    for (size_t f = 0; f < source->function_count; ++f) {
        const struct function *function = &source->functions[f];
        const bool is_inside = function->head > open && function->head < close;
        if (owners[function->body] == OWNER_DEVICE && (is_inside || source_is(source, function->name - 1, "::")))
            own(owners, function->head, source->lexed.tokens[function->body].match, OWNER_DECLARED + (unsigned)index);
    }
}

/* Gives back to CUDA what lies in a kernel or a host function and cannot mean its variables. */
static void
own_inner(const struct source *source, uint32_t i, unsigned char *owners)
{
    if (owners[i] != OWNER_KERNEL && owners[i] != OWNER_HOST)
        return;
    uint32_t body = i;
    if (source_is_lambda(source, i)) {
        const uint32_t found = source_lambda_body(source, i);
        if (found != i &&
            (owners[i] == OWNER_KERNEL ? !has_capture_default(source, i) : is_device_lambda(source, i, found)))
            body = found;
    } else if (owners[i] == OWNER_KERNEL) {
        body = class_body(source, i);
    }
    if (body != i)
        own(owners, body, source->lexed.tokens[body].match, OWNER_DEVICE);
}

static void
rewrite_word(struct source *source, uint32_t i, int index, unsigned owner)
{
    if (source_is(source, i - 1, ".") || source_is(source, i - 1, "->"))
        return;
    if (source_is(source, i - 1, "::")) {
        if (i >= 2 &&
            (source_is(source, i - 2, ">") || (source_is_word(source, i - 2) && !source_is(source, i - 2, "return"))))
            return; /* C::threadIdx */
        source_drop(source, i - 1);
    } else if (owner == OWNER_KERNEL || owner == OWNER_HOST ||
               (owner == OWNER_NOBODY && !source_is(source, i + 1, ".")) || owner == OWNER_DECLARED + (unsigned)index ||
               is_declared_here(source, i)) {
        return;
    }
    source_before(source, i, " ::softgpu_here->%s", index_table[index].member);
    source_drop(source, i);
}

void
indices_rewrite(struct source *source)
{
    const uint32_t count = source->lexed.count;
    unsigned char *owners = memory_grow(NULL, (size_t)count + 1);
    own(owners, 0, count + 1, OWNER_NOBODY);
    for (size_t f = 0; f < source->function_count; ++f)
        own_function(source, &source->functions[f], owners);
    for (uint32_t i = 0; i < count; ++i) {
        if (source->lexed.tokens[i].is_system)
            continue;
        own_inner(source, i, owners);
        if (owners[i] == OWNER_NOBODY && i > 0 && source_is_word(source, i) && index_at(source, i) >= 0)
            own_members(source, i, index_at(source, i), owners);
    }
    for (uint32_t i = 1; i < count; ++i) {
        const int index = source_is_word(source, i) && !source->lexed.tokens[i].is_system ? index_at(source, i) : -1;
        if (index >= 0)
            rewrite_word(source, i, index, owners[i]);
    }
    free(owners);
}
