/*
 * corrections.c - see lines.h.
 *
 * Adam corrects its moments by the number of the update, which programs often take from the loop over batches. N
 * batches make one update, and the first batch makes one by itself. So at batch t, which makes an update, it has the
 * number (t + N - 1) / N. The count is known by its use: as the exponent of "1 - powf(0.9f, t)", or as a whole number
 * that a kernel of the update gets, and that grows by one in each batch.
 */
#include "tools/scout/command/report/lines.h"

/* Behind "1", "1.f" or "1.0" at `at`; 0: another number stands there, or none. */
static size_t
skip_one(const char *text, size_t at)
{
    const size_t end = at + strspn(text + at, "0123456789.fF");
    bool is_begin = at == 0 || (!source_is_word(text[at - 1]) && text[at - 1] != '.');
    bool is_one = text[at] == '1' && !source_is_word(text[end]) && strtod(text + at, NULL) == 1;
    return is_begin && is_one ? end : 0;
}

/* The bracket that opens after "pow" or "powf" of any name space at `at`; 0: another word stands there. */
static size_t
find_power(const char *text, size_t at)
{
    static const char *const words[] = {"pow", "powf", "powl"};
    size_t end = source_token(text, at);
    if (strncmp(text + at, "std", end - at) == 0 && end - at == strlen("std")) {
        at = source_skip(text, source_skip(text, end) + strlen("::"));
        end = source_token(text, at);
    }
    bool is_power = ANY(word, words, sizeof(words) / sizeof(words[0]),
                        strlen(*word) == end - at && strncmp(text + at, *word, end - at) == 0);
    at = source_skip(text, end);
    return is_power && text[at] == '(' ? at : 0;
}

/* Argument `wanted`, from 0, of a call whose bracket opens at `open`; {0, 0}: there is none. */
static struct span
find_argument(const char *text, size_t open, uint32_t wanted)
{
    const size_t close = source_close(text, open);
    size_t begin = source_skip(text, open + 1), end = begin;
    uint32_t number = 0;
    for (size_t at = begin; at < close; at = source_skip(text, end)) {
        bool is_bracket = text[at] == '(' || text[at] == '[' || text[at] == '{';
        bool is_end = text[at] == ',' || at + 1 == close;
        if (is_end && number == wanted)
            return (struct span){begin, end};
        end = is_bracket ? source_close(text, at) : source_token(text, at);
        if (!is_end)
            continue;
        ++number;
        begin = source_skip(text, end);
    }
    return (struct span){0, 0};
}

/* Whether an expression is a count, or one and a number: "t", "opt->t + 1", "(float)step". */
static bool
is_count(const char *text, struct span part)
{
    for (size_t at = part.begin; at < part.end; ++at) {
        bool is_arrow = strncmp(text + at, "->", 2) == 0;
        at += is_arrow;
        if (!is_arrow && !source_is_word(text[at]) && strchr(" .+()[]:", text[at]) == NULL)
            return false;
    }
    return part.end > part.begin && !isdigit((unsigned char)text[part.begin]);
}

static bool
count_updates(struct search *search, const struct source *source, struct span part)
{
    if (!is_count(source->text, part))
        return false;
    spot_wrap(search, source, part, "(", " + DDP_WORLD_SIZE() - 1) / DDP_WORLD_SIZE()");
    return true;
}

/* ---- bias corrections ---- */

/* In all of a function: "1 - powf(0.9f, t)". */
static bool
correct_function(struct search *search, const struct source_node *function)
{
    const struct source *source = function->source;
    const char *text = source->text;
    bool any = false;
    for (size_t at = source_skip(text, function->begin); at < function->end;
         at = source_skip(text, source_token(text, at))) {
        size_t minus = skip_one(text, at);
        minus = minus > 0 ? source_skip(text, minus) : 0;
        if (minus == 0 || text[minus] != '-')
            continue;
        size_t open = find_power(text, source_skip(text, minus + 1));
        any = (open > 0 && count_updates(search, source, find_argument(text, open, 1))) || any;
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
    const char *text = function->source->text;
    const struct source_node *block = source_block(function);
    for (size_t at = function->begin; block != NULL && at < block->begin;
         at = source_skip(text, source_token(text, at)))
        if (strncmp(text + at, "__global__", strlen("__global__")) == 0)
            return true;
    return false;
}

/* In the functions from the call of an operation up to the one that has the region. */
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

/* The bracket that opens a launch's arguments, in the innermost statement that has one; 0: there is none. */
static size_t
find_launch(struct search *search, uint32_t op, const struct source **source_p)
{
    struct stack stack = spot_stack_of(search, op);
    for (uint32_t i = 0; i < stack.count; ++i) {
        const struct source_node *node = spot_node(search, stack.frames, i);
        const char *text = node != NULL ? node->source->text : NULL;
        const char *grid = node != NULL ? memmem(text + node->begin, node->end - node->begin, ">>>", 3) : NULL;
        if (grid == NULL)
            continue;
        *source_p = node->source;
        const size_t open = source_skip(text, (size_t)(grid - text) + strlen(">>>"));
        return text[open] == '(' ? open : 0;
    }
    return 0;
}

/* The argument of a launch that grows by one in each batch. */
static bool
correct_argument(struct search *search, uint32_t op)
{
    const int slot = corrections_slot(search, op);
    const struct source *source = NULL;
    const size_t open = slot >= 0 ? find_launch(search, op, &source) : 0;
    return open > 0 && count_updates(search, source, find_argument(source->text, open, (uint32_t)slot));
}

bool
corrections_place(struct search *search, uint32_t op, const struct borders *borders)
{
    bool is_power = correct_powers(search, op, borders);
    return correct_argument(search, op) || is_power;
}
