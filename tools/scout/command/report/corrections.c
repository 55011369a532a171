/*
 * corrections.c - see lines.h.
 *
 * Adam corrects its moments by the number of the update, which programs often take from the loop over batches. N
 * batches make one update, and the first batch makes one by itself. So at batch t, which makes an update, it has the
 * number (t + N - 1) / N. The count is known by its use: as the exponent of "1 - powf(0.9f, t)", or as a whole number
 * that a kernel of the update gets, and that grows by one in each batch.
 */
#include "tools/scout/command/report/lines.h"

#include "softgpu/text/calls.h"

/* Whether token i is "1", "1.f", "1.0". */
static bool
is_one(const struct code *code, uint32_t i)
{
    const struct token *token = &code->tokens[i];
    const char *text = code->text + token->begin;
    const bool is_decimal = token->kind == TOKEN_NUMBER && strspn(text, "0123456789.fF") == token->length;
    return is_decimal && text[0] == '1' && strtod(text, NULL) == 1;
}

/* Reads the call of pow(), powf() or powl() at token i, with or without std::. False: none is there. */
static bool
read_power(const struct code *code, uint32_t i, struct call *call)
{
    static const char *const words[] = {"pow", "powf", "powl", NULL};
    if (token_is(code, i, "std") && token_is(code, i + 1, "::"))
        i += 2;
    return token_is_one_of(code, i, words) && call_read(code, i, i, call);
}

/* Whether an expression is a count, or one and a number: "t", "opt->t + 1", "(float)step". */
static bool
is_count(const struct code *code, struct token_range tokens)
{
    static const char *const signs[] = {".", "->", "::", ":", "+", "++", "(", ")", "[", "]", NULL};
    if (code->tokens[tokens.first].kind == TOKEN_NUMBER)
        return false;
    for (uint32_t i = tokens.first; i < tokens.end; ++i) {
        const bool is_operand = token_is_word(code, i) || code->tokens[i].kind == TOKEN_NUMBER;
        if (!is_operand && !token_is_one_of(code, i, signs))
            return false;
    }
    return tokens.end > tokens.first;
}

/* Makes argument `number`, from 0, of a call the number of the update, if it is a count. Whether it is. */
static bool
count_updates(struct search *search, const struct source *source, const struct call *call, uint32_t number)
{
    const struct code *code = &source->code;
    if (number >= call->count || !is_count(code, call->arguments[number]))
        return false;
    const struct token_range tokens = call->arguments[number];
    const struct span part = {code->tokens[tokens.first].begin, token_end(code, tokens.end - 1)};
    spot_wrap(search, source, part, "(", " + DDP_WORLD_SIZE() - 1) / DDP_WORLD_SIZE()");
    return true;
}

/* ---- bias corrections ---- */

/* Corrects powers of a count in all of a function: "1 - powf(0.9f, t)". Whether there was one. */
static bool
correct_function(struct search *search, const struct source_node *function)
{
    const struct source *source = function->source;
    const struct code *code = &source->code;
    bool any = false;
    for (uint32_t i = function->tokens.first; i < function->tokens.end; ++i) {
        struct call power;
        if (is_one(code, i) && token_is(code, i + 1, "-") && read_power(code, i + 2, &power))
            any = count_updates(search, source, &power, 1) || any;
    }
    return any;
}

static bool
is_in_region(const struct source_node *node, const struct borders *borders)
{
    return node->source == borders->front->source && node->begin >= borders->front->begin &&
           node->begin < borders->back->end;
}

/* Whether a function is of the device: a launch's innermost frame may be its kernel. */
static bool
is_of_device(const struct source_node *function)
{
    const struct code *code = &function->source->code;
    const struct source_node *block = source_block(function);
    const uint32_t first = function->tokens.first;
    return block != NULL && ANY_NUMBER(i, first, block->tokens.first, token_is(code, i, "__global__"));
}

/* Corrects powers of a count in the functions from the call of an operation up to the one that has the region.
 * Whether there was one. */
static bool
correct_powers(struct search *search, uint32_t op, const struct borders *borders)
{
    struct stack stack = spot_stack_of(search, op);
    bool any = false;
    for (uint32_t i = 0; i < stack.count; ++i) {
        const struct source_node *node = spot_node(search, stack.frames, i);
        const struct source_node *function = node != NULL ? source_function(node) : NULL;
        if (function == NULL || is_of_device(function))
            continue;
        any = correct_function(search, function) || any;
        if (is_in_region(node, borders))
            break;
    }
    return any;
}

/* ---- arguments ---- */

int
corrections_slot(const struct search *search, uint32_t op)
{
    const uint32_t later = op + search->period;
    for (int slot = 0; slot < SCOUT_NUMBERS && later < search->log->op_count; ++slot) {
        const int64_t number = search->ops[op].numbers[slot];
        if (number > 0 && search->ops[later].numbers[slot] == number + 1)
            return slot;
    }
    return -1;
}

/* Reads the launch in the innermost statement around an operation's call that has one. False: none has. */
static bool
find_launch(struct search *search, uint32_t op, const struct source **source_p, struct call *launch)
{
    struct stack stack = spot_stack_of(search, op);
    for (uint32_t i = 0; i < stack.count; ++i) {
        const struct source_node *node = spot_node(search, stack.frames, i);
        if (node == NULL)
            continue;
        *source_p = node->source;
        for (uint32_t k = node->tokens.first; k < node->tokens.end; ++k)
            if (call_read_launch(&node->source->code, k, launch))
                return true;
    }
    return false;
}

/* Corrects the argument of a launch that grows by one in each batch. Whether there is one. */
static bool
correct_argument(struct search *search, uint32_t op)
{
    const int slot = corrections_slot(search, op);
    const struct source *source;
    struct call launch;
    return slot >= 0 && find_launch(search, op, &source, &launch) &&
           count_updates(search, source, &launch, (uint32_t)slot);
}

bool
corrections_place(struct search *search, uint32_t op, const struct borders *borders)
{
    bool is_power = correct_powers(search, op, borders);
    return correct_argument(search, op) || is_power;
}
