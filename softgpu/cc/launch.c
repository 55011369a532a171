/*
 * launch.c - k<<<grid, block, shared, stream>>>(a, b)  ->  (::softgpu::push_config(grid, block, shared, stream) ?
 * (void)0 : k(a, b))
 *
 * So the compiler does all the rest: template arguments, overloads, conversions, default arguments, function pointers;
 * each argument is evaluated once, after the configuration, as with nvcc.
 */
#include "source.h"

#include <stdlib.h>
#include <string.h>

/* "<<<" or ">>>", also as formatters of other languages leave it and nvcc takes it: "<< <", ">> >". */
static bool
is_arrow(const struct source *source, uint32_t i, char sign)
{
    return token_run(&source->code, i, sign, 2) && token_run(&source->code, i + 2, sign, 1);
}

/* "<<<" in a place where it can open a configuration; `operator<<<int>(...)` is an ordinary template call. */
static bool
is_opener(const struct source *source, uint32_t i)
{
    return i > 0 && !source->code.tokens[i].is_system && is_arrow(source, i, '<') &&
           !source_is(source, i - 1, "operator") && (i < 2 || !source_is(source, i - 1, "<"));
}

/* How many more '<' than '>' lie between from and to, outside of brackets. */
static int
angle_balance(const struct source *source, uint32_t from, uint32_t to)
{
    int balance = 0;
    for (uint32_t i = from; i < to; i = source_next(source, i)) {
        balance += source_is(source, i, "<");
        balance -= source_is(source, i, ">");
    }
    return balance;
}

/*
 * The ">>>" that closes the configuration opened at `open`: outside of brackets, with arguments after it, and with
 * template arguments closed before it, for k<<<f<A<B<C>>>(x), 1>>>(y) has two candidates. If none leaves the angles
 * balanced (a comparison in the configuration), the last one. 0 if there is no candidate.
 */
static uint32_t
find_closer(const struct source *source, uint32_t open)
{
    uint32_t last = 0;
    for (uint32_t i = open + 3; i < source->code.count; i = source_next(source, i)) {
        if (source_is(source, i, ";") || source_is(source, i, ")") || source_is(source, i, "}") ||
            source_is(source, i, "]") || is_opener(source, i))
            break;
        if (!is_arrow(source, i, '>') || !source_is(source, i + 3, "("))
            continue;
        if (angle_balance(source, open + 3, i) == 0)
            return i;
        last = i;
    }
    return last;
}

static bool
is_device_code(const struct source *source, uint32_t i)
{
    for (size_t f = 0; f < source->function_count; ++f) {
        const struct function *function = &source->functions[f];
        const bool is_device = (function->flags & FUNCTION_KERNEL) != 0 ||
                               (function->flags & (FUNCTION_DEVICE | FUNCTION_HOST)) == FUNCTION_DEVICE;
        if (is_device && i > function->body && i < source->code.tokens[function->body].match)
            return true;
    }
    return false;
}

static void
rewrite_launch(struct source *source, uint32_t open)
{
    const uint32_t close = find_closer(source, open);
    if (close == 0) {
        source_error(source, open, "this '<<<' has no '>>>' followed by '('");
        return;
    }
    if (is_device_code(source, open)) {
        source_error(source, open,
                     "softgpu-cc does not support kernels launched from device code (dynamic parallelism); launch from "
                     "the host, with -ptx from the program that loads the file");
        return;
    }
    const uint32_t begin = source_postfix_begin(source, open);
    const uint32_t arguments = close + 3;
    char *configuration = source_spell(source, open + 3, close);
    source_before_all(source, begin, "(::softgpu::push_config(%s) ? (void)0 : ", configuration);
    source_drop_range(source, open, arguments);
    source_after(source, source->code.tokens[arguments].match, ")");
    free(configuration);
}

void
launch_rewrite_all(struct source *source)
{
    for (uint32_t i = 0; i < source->code.count; ++i) {
        if (is_opener(source, i))
            rewrite_launch(source, i);
    }
}
