/*
 * lockstep.c - code that counts on the 32 threads of a warp running alike, as reductions did before __syncwarp:
 *
 *     __device__ void warp_reduce(volatile float *s, int t) { s[t] += s[t + 32]; s[t] += s[t + 16]; ... }
 *
 * CUDA has not promised it since Volta, and yet it works on GPUs, where such a statement is compiled to instructions
 * that a warp executes together. Here threads run one after the other, so an assignment to an element of a volatile
 * array from another element of it becomes: all lanes that are here come together; each computes its value; all come
 * together; each stores it.
 *
 *     s[t] += ::softgpu::together((MEET, s[t + 32]), MEET);
 *
 * Only for names that are declared volatile in the function itself. blocking.c runs such kernels on fibers.
 */
#include "source.h"

#include <string.h>

enum { NAMES_AT_MOST = 16 };

/* A place in the program of its own, at which lanes meet: what __activemask() becomes. */
#define MEET "[] { static const char site = 0; (void)::softgpu_active_mask(&site); }"

struct volatiles {
    uint32_t names[NAMES_AT_MOST];
    unsigned count;
};

static bool
is_volatile(const struct source *source, const struct volatiles *volatiles, uint32_t i)
{
    for (unsigned k = 0; k < volatiles->count; ++k) {
        if (source_same_word(source, volatiles->names[k], i))
            return true;
    }
    return false;
}

/* `volatile float *s`, `volatile __shared__ float s[64]`, `float volatile *s = ...`: the word before what ends it. */
static void
find_volatiles(const struct source *source, uint32_t from, uint32_t to, struct volatiles *volatiles)
{
    static const char *const ends[] = {",", ")", ";", "=", "[", "("};
    for (uint32_t i = from; i < to; ++i) {
        if (!source_is(source, i, "volatile"))
            continue;
        uint32_t end = i;
        for (bool found = false; !found && end < to;) {
            ++end;
            for (size_t k = 0; !found && k < sizeof(ends) / sizeof(ends[0]); ++k)
                found = source_is(source, end, ends[k]);
        }
        if (source_is_word(source, end - 1) && end - 1 > i && volatiles->count < NAMES_AT_MOST)
            volatiles->names[volatiles->count++] = end - 1;
    }
}

static bool
begins_statement(const struct source *source, uint32_t i)
{
    static const char *const before[] = {";", "{", "}", ")", ":", "else", "do"};
    for (size_t k = 0; k < sizeof(before) / sizeof(before[0]); ++k) {
        if (source_is(source, i - 1, before[k]))
            return true;
    }
    return false;
}

static bool
is_assignment(const struct source *source, uint32_t i)
{
    static const char *const operators[] = {"=", "+=", "-=", "*=", "/=", "&=", "|=", "^="};
    for (size_t k = 0; k < sizeof(operators) / sizeof(operators[0]); ++k) {
        if (source_is(source, i, operators[k]))
            return true;
    }
    return false;
}

/* At `s` of `s[...] += ... s ...;`. */
static void
rewrite_assignment(struct source *source, uint32_t name, uint32_t limit)
{
    const uint32_t sign = source->lexed.tokens[name + 1].match + 1;
    if (!begins_statement(source, name) || !is_assignment(source, sign))
        return;
    uint32_t semicolon = sign;
    while (semicolon < limit && !source_is(source, semicolon, ";"))
        semicolon = source_next(source, semicolon);
    const uint32_t end = source_piece_end(source, sign + 1, semicolon);
    for (uint32_t i = sign + 1; i < end; ++i) {
        if (source_same_word(source, name, i)) {
            source_before(source, sign + 1, " ::softgpu::together((" MEET "(), ");
            source_before(source, end, "), " MEET ")");
            return;
        }
    }
}

void
lockstep_rewrite(struct source *source, const struct function *function)
{
    const uint32_t end = source->lexed.tokens[function->body].match;
    struct volatiles volatiles = {0};
    if ((function->flags & (FUNCTION_DEVICE | FUNCTION_KERNEL)) == 0)
        return;
    find_volatiles(source, function->params, end, &volatiles);
    for (uint32_t i = function->body + 1; volatiles.count > 0 && i < end; ++i) {
        if (source_is(source, i + 1, "[") && is_volatile(source, &volatiles, i))
            rewrite_assignment(source, i, end);
    }
}
