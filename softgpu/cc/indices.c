/*
 * indices.c - threadIdx, blockIdx, blockDim and gridDim where they are not the parameters of a kernel's code
 * (run_kernel.h):
 *
 *     __device__ int f() { return threadIdx.x; }   ->   ... return ::softgpu_here->thread.x; ...
 *
 * In device functions, in lambdas with __device__, in what stands outside of functions (a member's initialiser), and in
 * those parts of a kernel that do not see its variables: lambdas without a capture default, local classes, ::threadIdx.
 * In host functions the words are left alone: `dim3 blockDim(256)` is an ordinary variable there. So is a parameter, a
 * template parameter or a variable of that name in device code, as far as its scope reaches.
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

/* Whose the words are at a token, with a bit for each of them that is declared there and so is the user's. */
enum owner {
    OWNER_NOBODY, /* outside of functions: CUDA's where one of its parts is named */
    OWNER_DEVICE, /* CUDA's */
    OWNER_KERNEL, /* parameters of the kernel's code */
    OWNER_HOST,   /* the user's */
    OWNER_MASK = 3,
    OWNER_DECLARED = 4, /* the bit of the first of INDICES */
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

/* Whether the word at i is being declared: `uint3 threadIdx`, `const dim3 &blockDim`, `template <int blockDim>`. */
static bool
is_declared_here(const struct source *source, uint32_t i)
{
    static const char *const not_types[] = {"return", "else", "case",   "throw", "co_return", "co_yield",
                                            "and",    "or",   "sizeof", "not",   NULL};
    static const char *const behind[] = {",", ")", ";", "=", "{", "[", "(", ":", ">"};
    uint32_t type = i - 1;
    while (type > 0 && (source_is(source, type, "&") || source_is(source, type, "*") || source_is(source, type, "&&") ||
                        source_is(source, type, "...")))
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
own(unsigned char *owners, uint32_t from, uint32_t to, enum owner owner)
{
    for (uint32_t i = from; i < to; ++i)
        owners[i] = (unsigned char)((owners[i] & ~OWNER_MASK) | (unsigned)owner);
}

static enum owner
owner_at(const unsigned char *owners, uint32_t i)
{
    return (enum owner)(owners[i] & OWNER_MASK);
}

/* ---- where a declared word is known ---- */

static void
declare(unsigned char *owners, uint32_t from, uint32_t to, int index)
{
    for (uint32_t i = from; i < to; ++i)
        owners[i] |= (unsigned char)(OWNER_DECLARED << index);
}

/* The end of what follows: a block, or a statement. */
static uint32_t
end_of_scope(const struct source *source, uint32_t i)
{
    for (; i < source->code.count && !source_is(source, i, ";"); i = source_next(source, i)) {
        if (source_is(source, i, "{"))
            return source->code.tokens[i].match;
    }
    return i;
}

/* A variable or parameter in a function: known from here to the end of its block, or of what its `for`, its function or
 * its lambda runs. */
static void
declare_local(const struct source *source, uint32_t i, int index, unsigned char *owners)
{
    const uint32_t open = source_enclosing(source, i);
    if (open == source->code.count)
        return;
    const uint32_t close = source->code.tokens[open].match;
    declare(owners, i, source_is(source, open, "{") ? close : end_of_scope(source, close + 1), index);
}

/* `T a, blockDim;`: a later one of several. */
static bool
is_declared_later(const struct source *source, uint32_t i)
{
    static const char *const not_types[] = {"return", "else", "case", "throw", "delete", NULL};
    uint32_t begin = i - 1;
    if (!source_is(source, begin, ","))
        return false;
    while (begin > 0 && !source_is(source, begin - 1, ";") && !source_is(source, begin - 1, "{") &&
           !source_is(source, begin - 1, "}")) {
        if (source_is(source, begin - 1, "("))
            return false;
        --begin;
        if (source_is(source, begin, ")") || source_is(source, begin, "]"))
            begin = source->code.tokens[begin].match;
    }
    return source_is_word(source, begin) && source_is_word(source, begin + 1) &&
           !source_is_one_of(source, begin, not_types);
}

/* Parameters of the template at i: known to the end of what it declares. */
static void
declare_template(const struct source *source, uint32_t i, unsigned char *owners)
{
    const uint32_t behind = source_skip_angles(source, i + 1, source->code.count);
    for (uint32_t k = i + 2; k < behind; ++k) {
        const int index = index_at(source, k);
        if (index >= 0 && is_declared_here(source, k))
            declare(owners, k, end_of_scope(source, behind), index);
    }
}

static void
own_function(const struct source *source, const struct function *function, unsigned char *owners)
{
    const uint32_t end = source->code.tokens[function->body].match;
    enum owner owner = OWNER_DEVICE;
    if ((function->flags & FUNCTION_KERNEL) != 0)
        owner = OWNER_KERNEL;
    else if ((function->flags & FUNCTION_DEVICE) == 0)
        owner = OWNER_HOST;
    own(owners, function->head, end, owner);
    for (uint32_t i = function->params; i < function->body; ++i) {
        const int index = index_at(source, i);
        if (index >= 0 && is_declared_here(source, i))
            declare(owners, function->head, end, index);
    }
}

/* ---- classes and lambdas ---- */

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
    for (uint32_t i = source->code.tokens[open].match; i < body; ++i) {
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
    for (uint32_t k = i + 1; k < source->code.count; k = source_next(source, k)) {
        if (source_is(source, k, "{"))
            return k;
        for (size_t e = 0; e < sizeof(ends) / sizeof(ends[0]); ++e) {
            if (source_is(source, k, ends[e]))
                return i;
        }
    }
    return i;
}

/* Whether the '{' at `open` opens a namespace. */
static bool
opens_namespace(const struct source *source, uint32_t open)
{
    while (open > 0 && (source_is_word(source, open - 1) || source_is(source, open - 1, "::"))) {
        if (source_is(source, --open, "namespace"))
            return true;
    }
    return false;
}

/* A class with a member of that name: its functions mean the member. Those that are defined outside of it are given to
 * the host too, and the compiler finds the member, or reports an error. A namespace: the functions behind the name. */
static void
own_members(const struct source *source, uint32_t i, int index, unsigned char *owners)
{
    const bool is_later =
        source_is(source, i - 1, ",") && (source_is(source, i + 1, ";") || source_is(source, i + 1, ","));
    const uint32_t open = is_later || is_declared_here(source, i) ? source_enclosing(source, i) : source->code.count;
    if (!source_is(source, open, "{"))
        return; /* also the parameters of a prototype */
    const uint32_t close = source->code.tokens[open].match;
    const bool is_namespace = opens_namespace(source, open);
    for (size_t f = 0; f < source->function_count; ++f) {
        const struct function *function = &source->functions[f];
        const bool is_inside = function->head > (is_namespace ? i : open) && function->head < close;
        if ((is_namespace || owner_at(owners, function->body) == OWNER_DEVICE) &&
            (is_inside || (!is_namespace && source_is(source, function->name - 1, "::"))))
            declare(owners, function->head, source->code.tokens[function->body].match, index);
    }
}

/* Gives back to CUDA what lies in a kernel or a host function and cannot mean its variables. */
static void
own_inner(const struct source *source, uint32_t i, unsigned char *owners)
{
    const enum owner owner = owner_at(owners, i);
    if (owner != OWNER_KERNEL && owner != OWNER_HOST)
        return;
    uint32_t body = i;
    if (source_is_lambda(source, i)) {
        const uint32_t found = source_lambda_body(source, i);
        if (found != i &&
            (owner == OWNER_KERNEL ? !has_capture_default(source, i) : is_device_lambda(source, i, found)))
            body = found;
    } else if (owner == OWNER_KERNEL) {
        body = class_body(source, i);
    }
    if (body != i)
        own(owners, body, source->code.tokens[body].match, OWNER_DEVICE);
}

static void
rewrite_word(struct source *source, uint32_t i, int index, const unsigned char *owners)
{
    const enum owner owner = owner_at(owners, i);
    if (source_is(source, i - 1, ".") || source_is(source, i - 1, "->"))
        return;
    if (source_is(source, i - 1, "::")) {
        if (i >= 2 &&
            (source_is(source, i - 2, ">") || (source_is_word(source, i - 2) && !source_is(source, i - 2, "return"))))
            return; /* C::threadIdx */
        source_drop(source, i - 1);
    } else if (owner == OWNER_KERNEL || owner == OWNER_HOST ||
               (owner == OWNER_NOBODY && !source_is(source, i + 1, ".")) ||
               (owners[i] & OWNER_DECLARED << index) != 0 || is_declared_here(source, i)) {
        return;
    }
    source_before(source, i, " ::softgpu_here->%s", index_table[index].member);
    source_drop(source, i);
}

/* Finds out whose the words are at each token. */
static void
find_owners(const struct source *source, unsigned char *owners)
{
    const uint32_t count = source->code.count;
    memset(owners, OWNER_NOBODY, (size_t)count + 1);
    for (size_t f = 0; f < source->function_count; ++f)
        own_function(source, &source->functions[f], owners);
    for (uint32_t i = 0; i < count; ++i) {
        if (source->code.tokens[i].is_system)
            continue;
        own_inner(source, i, owners);
        if (source_is(source, i, "template") && source_is(source, i + 1, "<"))
            declare_template(source, i, owners);
        const int index = i > 0 && source_is_word(source, i) ? index_at(source, i) : -1;
        if (index < 0 || (owners[i] & OWNER_DECLARED << index) != 0)
            continue;
        if (owner_at(owners, i) == OWNER_NOBODY)
            own_members(source, i, index, owners);
        else if (is_declared_here(source, i) || is_declared_later(source, i))
            declare_local(source, i, index, owners);
    }
}

/* Which of the words a kernel's code must not have as parameters, because the user has them as such (bits), and whether
 * it declares others. */
static void
describe_kernel(const struct source *source, struct function *function, const unsigned char *owners)
{
    const uint32_t end = source->code.tokens[function->body].match;
    function->hidden_indices = owners[function->body] / OWNER_DECLARED;
    for (uint32_t i = function->body; i < end; ++i)
        function->declares_indices |= owners[i] / OWNER_DECLARED != 0;
}

void
indices_rewrite(struct source *source)
{
    const uint32_t count = source->code.count;
    unsigned char *owners = memory_grow(NULL, (size_t)count + 1);
    find_owners(source, owners);
    for (uint32_t i = 1; i < count; ++i) {
        const int index = source_is_word(source, i) && !source->code.tokens[i].is_system ? index_at(source, i) : -1;
        if (index >= 0)
            rewrite_word(source, i, index, owners);
    }
    for (size_t f = 0; f < source->function_count; ++f) {
        if ((source->functions[f].flags & FUNCTION_KERNEL) != 0)
            describe_kernel(source, &source->functions[f], owners);
    }
    free(owners);
}
