/*
 * races.c - SOFTGPU_RACES=1, or SOFTGPU_UNRULY, in softgpu-cc's environment: device code reports changes of one place
 * that nothing orders.
 *
 *     a[row] += s;        ::softgpu::changed(a[row], "file", line) += s;
 *     atomicCAS(p, 0, 1)  atomicCAS(::softgpu::ordered(p), 0, 1)
 *
 * A place is an element, or what a pointer points to; a change is `+=` and its relatives, `++`, and `x = x ...`. `|=`
 * and
 * `&=` often leave what another thread wrote, and are not watched. Device code that names cuda::atomic orders itself in
 * ways that are not seen here, so such a source is left as it is. Kernels run on fibers, where threads have numbers.
 */
#include "source.h"

#include <stdlib.h>
#include <string.h>

static const char *const before_statements[] = {";", "{", "}", ")", ":", "else", "do", NULL};
static const char *const changes[] = {"+=", "-=", "*=", "/=", "%=", "^=", "++", "--", NULL};
static const char *const orders[] = {"atomicCAS", "atomicExch", "atomicAdd", "atomicSub", "atomicInc", "atomicDec",
                                     "atomicMax", "atomicMin",  "atomicOr",  "atomicAnd", "free",      NULL};
static const char *const fences[] = {"__threadfence", "__threadfence_block", "__threadfence_system", NULL};

bool
races_are_wanted(void)
{
    const char *races = getenv("SOFTGPU_RACES");
    return (races != NULL && races[0] == '1') || getenv("SOFTGPU_UNRULY") != NULL;
}

/* Behind `= x` of `x = x + ...`, where x is tokens from..sign. */
static bool
repeats(const struct source *source, uint32_t from, uint32_t sign)
{
    for (uint32_t i = from; i < sign; ++i) {
        const struct token *a = &source->code.tokens[i], *b = &source->code.tokens[sign + 1 + i - from];
        if (a->length != b->length ||
            memcmp(source->code.text + a->begin, source->code.text + b->begin, a->length) != 0)
            return false;
    }
    return true;
}

/* At the first token of a statement, or after its `++`. */
static void
watch_change(struct source *source, uint32_t from, uint32_t limit)
{
    static const char *const ends[] = {"=", ";", ",", ")", "]", "{", "}", NULL};
    static const char *const not_places[] = {"if", "for", "while", "switch", "return", "case", "delete", NULL};
    const bool is_counted = source_is(source, from - 1, "++") || source_is(source, from - 1, "--");
    uint32_t sign = from;
    if (source_is_one_of(source, from, not_places))
        return;
    while (sign < limit && !source_is_one_of(source, sign, changes) && !source_is_one_of(source, sign, ends))
        sign = source_next(source, sign);
    const bool is_change = source_is_one_of(source, sign, changes) ||
                           (source_is(source, sign, "=") && repeats(source, from, sign)) ||
                           (is_counted && source_is(source, sign, ";"));
    if (sign <= from + 1 || !is_change || (!source_is(source, sign - 1, "]") && !source_is(source, from, "*")))
        return;
    const struct token *token = &source->code.tokens[from];
    source_before(source, from, " ::softgpu::changed(");
    source_before(source, sign, ", \"%s\", %u)", source->files.names.items[token->file], token->line);
}

/* At the name of an atomic function or a fence. One that is a statement of its own and gives nothing back orders
 * nothing, but for atomicExch, which opens locks. */
static void
watch_order(struct source *source, uint32_t name)
{
    const uint32_t close = source->code.tokens[name + 1].match;
    const bool is_statement =
        source_is_one_of(source, name - 1, before_statements) && source_is(source, close + 1, ";");
    if (source_is_one_of(source, name, fences))
        source_before(source, name, " ::softgpu::ordered(0), ");
    else if (source_is_one_of(source, name, orders) && close > name + 2 &&
             (!is_statement || source_is(source, name, "atomicExch") || source_is(source, name, "free"))) {
        source_before(source, name + 2, "::softgpu::ordered(");
        source_before(source, source_piece_end(source, name + 2, close), ")");
    }
}

void
races_rewrite(struct source *source)
{
    for (uint32_t i = 0; i + 2 < source->code.count; ++i) {
        if (!source->code.tokens[i].is_system && source_is(source, i, "cuda") && source_is(source, i + 1, "::") &&
            (source_is(source, i + 2, "atomic") || source_is(source, i + 2, "atomic_ref")))
            return;
    }
    for (size_t f = 0; f < source->function_count; ++f) {
        struct function *function = &source->functions[f];
        const uint32_t end = source->code.tokens[function->body].match;
        if ((function->flags & (FUNCTION_DEVICE | FUNCTION_KERNEL)) == 0 ||
            source->code.tokens[function->body].is_system)
            continue;
        function->findings.may_wait = true;
        for (uint32_t i = function->body + 1; i < end; ++i) {
            if (source_is(source, i + 1, "(") && source_is_word(source, i))
                watch_order(source, i);
            const bool is_prefix = source_is(source, i - 1, "++") || source_is(source, i - 1, "--");
            if (source_is_one_of(source, is_prefix ? i - 2 : i - 1, before_statements))
                watch_change(source, i, end);
        }
    }
}
