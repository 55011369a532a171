/*
 * uses.c - see lines.h.
 *
 * Memory that has no name where it is allocated has one where a launch gets it: `dw` of `backward<<<...>>>(x, dy, dw)`.
 * Its line stands behind that launch, in each batch: to annotate the same memory again changes nothing. All that the
 * launch ever gets there has to be of one role. A parameter is named by a launch of the forward or the backward pass, a
 * gradient by the last launch that gets it, so both are annotated before the first DDP_STEP.
 */
#include "tools/scout/command/report/expression.h"

#include "tools/scout/command/analysis/rules.h"

/* An argument of a launch, as the function of frame `depth` of its call says it. */
struct use {
    const struct scout_tensor *tensor;
    uint32_t slot, depth;
    uint32_t launch; /* the frame whose statement launches: a kernel's stub may have one, too */
    struct stack stack;
    const bool *is_here; /* [site_count]: the same calls up to frame `depth` */
};

/* ---- what can stand in a line ---- */

/* Whether the bracket at token i opens the arguments of a call that may do something: of any but a method without
 * arguments, as "w.data()", and of one that gives the pointer to memory. */
static bool
opens_call(const struct code *code, uint32_t i)
{
    static const char *const links[] = {".", "->", NULL};
    if (!token_is(code, i, "(") || i == 0 || !token_is_word(code, i - 1))
        return false;
    const bool is_method = i > 1 && token_is_one_of(code, i - 2, links);
    const bool is_harmless = is_method && token_is(code, i + 1, ")");
    return !is_harmless && !token_is(code, i - 1, "raw_pointer_cast");
}

/* Whether an expression can be said once more: it calls nothing that may do something, sets and compares nothing. */
static bool
is_repeatable(const char *expression)
{
    static const char *const signs[] = {
        "=", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "++", "--", "{", "}", "?", NULL};
    struct code code = expression_read(expression);
    const bool does_something =
        ANY_NUMBER(i, 0, code.count,
                   code.tokens[i].kind == TOKEN_STRING || token_is_one_of(&code, i, signs) || opens_call(&code, i));
    const bool is_said = code.count > 0;
    code_free(&code);
    return is_said && !does_something;
}

/* Finds what the statement of frame `launch` says for an argument of the launch. False: it is not known. */
static bool
say_there(struct search *search, const struct use *use, uint32_t slot, char said[LIFT_BYTES])
{
    const struct source_node *node = spot_node(search, use->stack.frames, use->launch);
    bool is_choice = false;
    return node != NULL && lift_argument(node, slot, said, &is_choice) && !is_choice;
}

/* Finds what the function of frame `depth` says for an argument of the launch. False: it is not known. */
static bool
say_argument(struct search *search, const struct use *use, uint32_t slot, char said[LIFT_BYTES])
{
    if (!say_there(search, use, slot, said))
        return false;
    for (uint32_t depth = use->launch + 1; depth <= use->depth; ++depth)
        if (!lift_up(&search->sources, use->stack.frames, depth, said))
            return false;
    return is_repeatable(said);
}

/* Finds the statement that launches. False: the source does not show it. */
static bool
find_launch(struct search *search, struct use *use)
{
    enum { STUBS_AT_MOST = 2 };
    char said[LIFT_BYTES];
    for (use->launch = 0; use->launch < use->stack.count && use->launch <= STUBS_AT_MOST; ++use->launch)
        if (say_there(search, use, use->slot, said))
            return true;
    return false;
}

/* ---- whether a launch ever gets other memory there ---- */

/* The tensor that begins in this place, if it needs a line; NULL. */
static const struct scout_tensor *
find_tensor(const struct search *search, uint32_t alloc, uint64_t offset)
{
    const struct scout_finding *finding = search->finding;
    return FIND(it, finding->tensors, finding->tensor_count,
                search->memory_of[it->alloc] == search->memory_of[alloc] && it->lo == offset &&
                    insertions_have(search->log, finding, it));
}

static const struct scout_argument *
find_argument(const struct scout_op *op, uint32_t slot)
{
    return FIND(it, op->arguments, op->argument_count, it->slot == slot && it->byte == 0 && it->alloc != SCOUT_NONE);
}

static uint32_t
line_group(const struct search *search, const struct scout_tensor *tensor)
{
    bool is_one = search->to->groups == 1 || tensor->group == GROUP_NONE;
    return is_one ? 0 : search->to->group_of[tensor->group];
}

/* The tensor that a launch gets as the use says it; NULL: other memory, or one of another kind. */
static const struct scout_tensor *
tensor_of_launch(const struct search *search, const struct use *use, const struct scout_op *op)
{
    const struct scout_argument *argument = find_argument(op, use->slot);
    const struct scout_tensor *tensor =
        argument != NULL ? find_tensor(search, argument->alloc, argument->offset) : NULL;
    bool is_alike = tensor != NULL && tensor->role == use->tensor->role && tensor->type == use->tensor->type &&
                    line_group(search, tensor) == line_group(search, use->tensor);
    return is_alike ? tensor : NULL;
}

/* ---- how many elements ---- */

struct counts {
    uint64_t one;    /* of all; 0: they differ */
    bool are_whole;  /* each is all of its allocation */
    uint32_t number; /* argument of the launch that is the count; SCOUT_NONE */
};

static uint64_t
elements_of(const struct scout_tensor *tensor)
{
    const uint32_t bytes = scout_type_bytes(tensor->type);
    return (tensor->hi - tensor->lo) / (bytes > 0 ? bytes : sizeof(float));
}

/* Takes away what a tensor does not bear out; `possible`: of the launch's numbers. */
static void
narrow_counts(const struct search *search, const struct scout_op *op, const struct scout_tensor *tensor,
              struct counts *counts, bool possible[SCOUT_NUMBERS])
{
    const uint64_t elements = elements_of(tensor);
    counts->one = counts->one == elements ? elements : 0;
    counts->are_whole = counts->are_whole && tensor->lo == 0 && tensor->hi == search->log->allocs[tensor->alloc].bytes;
    for (uint32_t slot = 0; slot < SCOUT_NUMBERS; ++slot)
        possible[slot] = possible[slot] && (uint64_t)op->numbers[slot] == elements;
}

/* Whether all launches by these calls get a tensor like the use's; what their counts have in common. */
static bool
is_of_all_launches(const struct search *search, const struct use *use, struct counts *counts)
{
    bool possible[SCOUT_NUMBERS];
    memset(possible, true, sizeof(possible));
    *counts = (struct counts){.one = elements_of(use->tensor), .are_whole = true, .number = SCOUT_NONE};
    for (uint32_t i = 0; i < search->log->op_count; ++i) {
        const struct scout_op *op = &search->ops[i];
        if (op->kind != SCOUT_LAUNCH || op->site == SCOUT_NONE || !use->is_here[op->site])
            continue;
        const struct scout_tensor *tensor = tensor_of_launch(search, use, op);
        if (tensor == NULL)
            return false;
        narrow_counts(search, op, tensor, counts, possible);
    }
    for (uint32_t slot = SCOUT_NUMBERS; slot-- > 0;)
        counts->number = possible[slot] ? slot : counts->number;
    return true;
}

/* "n", or DDP_WHOLE, or "512". False: there is no count that holds for all. */
static bool
say_count(struct search *search, const struct use *use, const struct counts *counts, char said[LIFT_BYTES])
{
    if (counts->number != SCOUT_NONE && say_argument(search, use, counts->number, said))
        return true;
    if (counts->are_whole)
        snprintf(said, LIFT_BYTES, "DDP_WHOLE");
    else
        snprintf(said, LIFT_BYTES, "%" PRIu64, counts->one);
    return counts->are_whole || counts->one > 0;
}

/* ---- where ---- */

/* Whether the statement leads to the update, too: a line behind it comes after DDP_STEP. */
static bool
leads_to_update(struct search *search, const struct source_node *node, const struct scout_group *group)
{
    struct stack stack = spot_stack_of(search, group->before);
    for (uint32_t i = 0; i < stack.count && !group->fused; ++i)
        if (spot_node(search, stack.frames, i) == node)
            return true;
    return false;
}

/* The line of a use, in the innermost function that can say it; NULL: none can. */
static char *
place_use(struct search *search, struct use *use, const struct scout_group *group)
{
    OWNED bool *is_here = xcalloc(search->log->site_count + 1, sizeof(*is_here));
    char memory[LIFT_BYTES], count[LIFT_BYTES], text[LINE_BYTES];
    if (!find_launch(search, use))
        return NULL;
    use->is_here = is_here;
    for (use->depth = use->launch; use->depth < use->stack.count; ++use->depth) {
        struct counts counts;
        struct spot spot;
        for (uint32_t site = 0; site < search->log->site_count; ++site)
            is_here[site] = spot_is_same_chain(use->stack, spot_stack(search, site), use->depth);
        if (!say_argument(search, use, use->slot, memory))
            return NULL;
        if (!is_of_all_launches(search, use, &counts) || !say_count(search, use, &counts, count) ||
            !spot_find_behind(search, &use->stack.frames[use->depth], &spot) ||
            leads_to_update(search, spot.node, group) ||
            !line_write(search, use->tensor, memory, count, spot.node, text))
            continue;
        spot_add_text(search, &spot, text);
        return xstrdup(memory);
    }
    return NULL;
}

/* Whether a kernel's argument is a struct that begins with the pointer, as far as the kernel's name says it. */
static bool
is_struct(const struct search *search, const struct scout_op *op, uint32_t slot)
{
    enum { PARAMETERS_AT_MOST = 64 };
    struct mangled_parameter parameters[PARAMETERS_AT_MOST];
    int count = mangled_parameters(scout_log_name(search->log, op->name), parameters, PARAMETERS_AT_MOST);
    return (int)slot < count && !parameters[slot].is_pointer;
}

/* Whether the operation comes in front of the group's step, in the recorded period. */
static bool
is_in_front(const struct search *search, const struct scout_group *group, uint32_t op)
{
    bool is_update = op >= group->before && !group->fused;
    return search->ops[op].kind == SCOUT_LAUNCH && search->ops[op].site != SCOUT_NONE && op <= group->complete &&
           !is_update;
}

/* The expression by which the program passes the tensor to an operation of the period, where its annotation can stand;
 * malloc'ed; NULL: there is none. Gradients are looked for from the last operation back. */
static char *
place_tensor_by_use(struct search *search, const struct scout_tensor *tensor)
{
    const struct scout_group *group = &search->finding->groups[tensor->group != GROUP_NONE ? tensor->group : 0];
    const bool is_gradient = tensor->role == ROLE_GRADIENT;
    for (uint32_t i = 0; i < search->period; ++i) {
        uint32_t number = search->first + (is_gradient ? search->period - 1 - i : i); /* gradients: the last one */
        const struct scout_op *op = &search->ops[number];
        FOR_EACH(argument, op->arguments, is_in_front(search, group, number) ? op->argument_count : 0) {
            bool is_its = argument->byte == 0 && argument->alloc != SCOUT_NONE &&
                          find_tensor(search, argument->alloc, argument->offset) == tensor;
            if (!is_its || is_struct(search, op, argument->slot))
                continue;
            struct use use = {.tensor = tensor, .slot = argument->slot, .stack = spot_stack_of(search, number)};
            char *name = place_use(search, &use, group);
            if (name != NULL)
                return name;
        }
    }
    return NULL;
}

/* Whether another gradient lies in its place at other times: one annotation is of both. */
static bool
is_widened(const struct search *search, const struct scout_tensor *tensor)
{
    const struct scout_tensor wide = line_widen(search, tensor);
    return wide.lo != tensor->lo || wide.hi != tensor->hi;
}

void
uses_place(struct search *search)
{
    FOR_EACH(tensor, search->finding->tensors, search->finding->tensor_count) {
        char **name = &search->to->names[NUMBER_OF(tensor)];
        if (*name == NULL && insertions_need(search->log, search->finding, tensor) && !is_widened(search, tensor))
            *name = place_tensor_by_use(search, tensor);
    }
}
