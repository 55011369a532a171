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
    static const char *const ends[] = {",", ")", ";", "=", "[", "(", NULL};
    for (uint32_t i = from; i < to; ++i) {
        if (!source_is(source, i, "volatile"))
            continue;
        uint32_t end = i + 1;
        while (end < to && !source_is_one_of(source, end, ends))
            ++end;
        if (source_is_word(source, end - 1) && end - 1 > i && volatiles->count < NAMES_AT_MOST)
            volatiles->names[volatiles->count++] = end - 1;
    }
}

static const char *const before_statements[] = {";", "{", "}", ")", ":", "else", "do", NULL};
static const char *const assignments[] = {"=", "+=", "-=", "*=", "/=", "&=", "|=", "^=", NULL};

/* At `s` of `s[...] += ... s ...;`. */
static void
rewrite_assignment(struct source *source, uint32_t name, uint32_t limit)
{
    const uint32_t sign = source->code.tokens[name + 1].match + 1;
    if (!source_is_one_of(source, name - 1, before_statements) || !source_is_one_of(source, sign, assignments))
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
    const uint32_t end = source->code.tokens[function->body].match;
    struct volatiles volatiles = {0};
    if ((function->flags & (FUNCTION_DEVICE | FUNCTION_KERNEL)) == 0)
        return;
    find_volatiles(source, function->params, end, &volatiles);
    for (uint32_t i = function->body + 1; volatiles.count > 0 && i < end; ++i) {
        if (source_is(source, i + 1, "[") && is_volatile(source, &volatiles, i))
            rewrite_assignment(source, i, end);
    }
}
