/*
 * made.c - see lines.h.
 *
 * The allocations of tensors that still have no line are counted, and the tensors annotated by number in front of the
 * first step.
 */
#include "tools/scout/command/report/lines.h"

enum { MADE_AT_MOST = 1024 /* of ddprun_lines.h */ };

/* The function, or what else is outermost around the call that allocates memory: nothing else of the program may
 * allocate there, but it does. False: not known, or lines of its own cannot stand around it. */
static bool
find_maker(struct search *search, uint32_t alloc, struct spot *spot)
{
    const struct scout_log *log = search->log;
    struct stack made = spot_stack(search, log->allocs[alloc].site);
    struct site_place tail;
    *spot = (struct spot){0};
    if (made.count == 0 || scout_is_variable(log, alloc) || log->allocs[alloc].memory > SCOUT_MANAGED)
        return false;
    if (!lift_find_tail(&search->sources, NULL, &made.frames[0], &tail))
        tail = made.frames[0];
    const struct source *source = sources_open(&search->sources, tail.file);
    if (source == NULL)
        return false;
    const size_t begin = source_place(source, tail.line, 1);
    const char *line = source->text + begin;
    spot->node = source_statement_of(source, code_token_at(&source->code, begin));
    while (spot->node != NULL && spot->node->parent != NULL)
        spot->node = spot->node->parent;
    bool is_pitched = memmem(line, strcspn(line, "\n"), "MallocPitch", 11) != NULL;
    if (spot->node == NULL || is_pitched || !spot_has_line(spot))
        return false;
    spot->behind = spot->node->end;
    return spot_has_line(spot);
}

/* Finds where lines for the tensor can stand, in front of the first step and after all that sets it: the innermost
 * place that two calls show. False: there is none. */
static bool
find_front(struct search *search, const struct scout_tensor *tensor, struct spot *spot)
{
    uint32_t setting = line_setting_of(search, tensor), at_set, at_step;
    struct stack step = spot_stack_of(search, search->start),
                 set = setting != SCOUT_NONE ? spot_stack_of(search, setting)
                                             : spot_stack(search, search->log->allocs[tensor->alloc].site);
    *spot = (struct spot){0};
    if (!spot_find_parting(set, step, &at_set, &at_step))
        return false;
    const struct source_node *from = spot_node(search, set.frames, at_set),
                             *to = spot_node(search, step.frames, at_step);
    spot->node = from != NULL && to != NULL && from != to ? source_beside(to, from) : NULL;
    const struct source_node *function = spot->node != NULL ? source_function(spot->node) : NULL;
    return function != NULL && function != spot->node;
}

/* Whether memory is made before the first step, and calls of steps make none like it. */
static bool
is_front(const struct search *search, uint32_t alloc)
{
    const struct scout_alloc *allocs = search->log->allocs;
    return allocs[alloc].made_at <= search->begun &&
           !ANY(other, allocs, search->log->alloc_count,
                other->site == allocs[alloc].site && other->made_at > search->begun);
}

/* Whether a call inside the statement in front of which lines stand allocates memory: the first step does. */
static bool
is_made_inside(struct search *search, uint32_t alloc, const struct spot *front)
{
    struct stack made = spot_stack(search, search->log->allocs[alloc].site);
    const struct source_node *node = NULL;
    for (uint32_t i = 0; i < made.count && front->node != NULL && node == NULL; ++i)
        for (node = spot_node(search, made.frames, i); node != NULL && node != front->node;)
            node = node->parent;
    return node != NULL;
}

/* Whether the counts of allocations have room, and which number each has: all that the same functions allocate in front
 * of the first step are counted. What the calls of a step make is the step's: copies may enter the log later than they
 * are made, and so may the first step's begin. *count_p: those that are made in front of the lines. */
static bool
count_allocations(struct search *search, const struct spot *front, uint32_t *count_p)
{
    const struct scout_log *log = search->log;
    struct spot spot, other;
    uint32_t numbers = *count_p = 0;
    for (uint32_t a = 0; a < log->alloc_count; ++a) {
        search->number[a] = SCOUT_NONE;
        bool is_one = is_front(search, a) && find_maker(search, a, &spot);
        for (uint32_t k = 0; k < log->alloc_count && is_one && search->number[a] == SCOUT_NONE; ++k)
            if (search->counted[k] && find_maker(search, k, &other) && spot.node == other.node)
                search->number[a] = numbers++;
        if (search->number[a] != SCOUT_NONE && !is_made_inside(search, a, front))
            *count_p = numbers;
    }
    return numbers <= MADE_AT_MOST;
}

/* Whether the tensor needs a line, and the program has no expression for it. */
static bool
has_no_line(const struct search *search, const struct scout_tensor *tensor)
{
    return insertions_need(search->log, search->finding, tensor) &&
           search->to->names[tensor - search->finding->tensors] == NULL;
}

/* Marks the allocations of such tensors that are made before the first step, in search->counted. Returns where their
 * lines can stand: the last of the places before which all of them are set; .node NULL: there is none. */
static struct spot
find_lines_front(struct search *search)
{
    const struct scout_log *log = search->log;
    const struct scout_finding *finding = search->finding;
    struct spot front = {0}, spot;
    FOR_EACH(tensor, finding->tensors, finding->tensor_count) {
        bool is_open = has_no_line(search, tensor) && !scout_is_remade(log, finding, tensor->alloc);
        if (!is_open || !is_front(search, tensor->alloc) || !find_front(search, tensor, &spot))
            continue;
        search->counted[tensor->alloc] = true;
        if (front.node == NULL || spot.node->begin > front.node->begin)
            front = spot;
    }
    for (uint32_t a = 0; a < log->alloc_count; ++a)
        search->counted[a] = search->counted[a] && is_front(search, a) && find_maker(search, a, &spot);
    return front;
}

/* Around each function that makes counted allocations: lines by which ddprun_lines.h counts its allocations. */
static void
put_counting(struct search *search)
{
    const struct scout_log *log = search->log;
    for (uint32_t a = 0; a < log->alloc_count; ++a) {
        struct spot spot;
        if (search->number[a] == SCOUT_NONE || !find_maker(search, a, &spot))
            continue;
        bool is_managed = log->allocs[a].memory == SCOUT_MANAGED;
        spot_add_text(search, &spot, is_managed ? "#undef cudaMallocManaged" : "#undef cudaMalloc"); /* after it */
        spot.behind = 0;
        spot_add_text(search, &spot,
                      is_managed ? "#define cudaMallocManaged ddp_malloc_managed" : "#define cudaMalloc ddp_malloc");
    }
}

/* The line that annotates tensor `i` of the finding as allocation `number` of those that are counted. */
static void
put_line(struct search *search, uint32_t i, uint32_t number, const struct spot *front)
{
    const struct scout_tensor wide = line_widen(search, &search->finding->tensors[i]);
    struct lifted said = {0};
    char text[LINE_BYTES];
    snprintf(said.memory, sizeof(said.memory), "ddp_made[%" PRIu32 "].memory", number);
    snprintf(said.bytes, sizeof(said.bytes), "ddp_made[%" PRIu32 "].bytes", number);
    if (!line_write_said(search, &wide, &said, NULL, text))
        return;
    spot_add_text(search, front, text);
    search->to->names[i] = xstrdup(said.memory);
}

void
made_place(struct search *search)
{
    const struct scout_finding *finding = search->finding;
    uint32_t count;
    const struct spot front = find_lines_front(search);
    if (!count_allocations(search, &front, &count))
        return;
    put_counting(search);
    if (front.node == NULL)
        return;
    char text[LINE_BYTES];
    snprintf(text, sizeof(text), "ddp_check_made(%" PRIu32 ");", count);
    if (count > 0)
        spot_add_text(search, &front, text);
    FOR_EACH(tensor, finding->tensors, finding->tensor_count) {
        uint32_t number = search->number[tensor->alloc];
        if (has_no_line(search, tensor) && search->counted[tensor->alloc] && number < count)
            put_line(search, NUMBER_OF(tensor), number, &front);
    }
}
