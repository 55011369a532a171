/*
 * insert.c - see lines.h.
 *
 * A tensor is annotated after its allocation, a parameter and state after the operation that sets it last before the
 * first step, too, in the innermost function that says its name and comes by for nothing else. The boundary stands in
 * the innermost function that leads to both the last write of a gradient and the first read.
 */
#include "tools/scout/command/report/lines.h"

#include "tools/plan/format/play.h"
#include "tools/scout/command/analysis/rules.h"

enum {
    TEXT_BYTES = 1024,
    MADE_AT_MOST = 1024 /* of ddprun_lines.h */,
    GROUPS_AT_MOST = 16 /* as DDP_GRADIENT_GROUP */
};

/* Of one line: a brace comes after what it closes, and #undef in front of the next #define. */
static int
rank_of(const struct insertion *insertion)
{
    return (strcmp(insertion->text + strspn(insertion->text, " "), "}") == 0) -
           (strncmp(insertion->text, "#undef", 6) == 0);
}

/* By file, line, and place in the line; then in their order. */
static int
compare_insertions(const void *first_item, const void *other)
{
    const struct insertion *a = first_item, *b = other;
    const int by_file = strcmp(a->file, b->file);
    if (by_file != 0)
        return by_file;
    if (a->line != b->line)
        return a->line - b->line;
    if (a->within != b->within)
        return COMPARE(a, b, within, 0);
    if (rank_of(a) != rank_of(b))
        return rank_of(a) - rank_of(b);
    return COMPARE(a, b, number, 0);
}

/* ---- tensors ---- */

static const char *
type_word(uint32_t type)
{
    static const char *const words[] = {"DDP_FLOAT32", "DDP_FLOAT32",  "DDP_FLOAT64",
                                        "DDP_FLOAT16", "DDP_BFLOAT16", "DDP_INT32"};
    return type < sizeof(words) / sizeof(words[0]) ? words[type] : words[0];
}

/* Whether memory holds running statistics, as of a batch normalisation: numbers with a fraction that the program keeps
 * and does not read in its steps. What the host reads there is a figure of the rank's own batches. */
static bool
is_running(const struct scout_log *log, const struct scout_tensor *tensor)
{
    bool has_fraction = tensor->type != SCOUT_INTEGER && tensor->type != SCOUT_UNKNOWN;
    return tensor->role == ROLE_STATISTICS && has_fraction && tensor->hi - tensor->lo > ELEMENT_BYTES &&
           !scout_is_read_by_host(log, tensor);
}

static const char *
macro_of(const struct scout_log *log, const struct scout_tensor *tensor)
{
    static const char *const macros[] = {[ROLE_PARAMETER] = "DDP_PARAMETER",
                                         [ROLE_GRADIENT] = "DDP_GRADIENT",
                                         [ROLE_OPTIMIZER_STATE] = "DDP_STATE",
                                         [ROLE_AVERAGE] = "DDP_STATE"};
    if (is_running(log, tensor))
        return "DDP_BUFFER";
    return tensor->role < sizeof(macros) / sizeof(macros[0]) ? macros[tensor->role] : NULL;
}

/* Whether the sources give a type of C this name, too. */
static bool
is_alias(const struct sources *sources, const char *type, const char *name, size_t length)
{
    OWNED char *old = xasprintf("typedef %s %.*s;", type, (int)length, name);
    OWNED char *new = xasprintf("using %.*s = %s;", (int)length, name, type);
    OWNED char *macro = xasprintf("#define %.*s %s\n", (int)length, name, type);
    return ANY(file, sources->files, sources->count,
               (*file)->text != NULL && (strstr((*file)->text, old) != NULL || strstr((*file)->text, new) != NULL ||
                                         strstr((*file)->text, macro) != NULL));
}

/* Whether a factor of a product is the bytes of an element: "sizeof(float)", "4". */
static bool
is_element(const struct sources *sources, const char *factor, size_t length, uint32_t type)
{
    static const char word[] = "sizeof(";
    const char *name = type == SCOUT_FLOAT64 ? "double" : "float";
    const size_t size = scout_type_bytes(type), before = strlen(word);
    if (length == 1)
        return factor[0] == '0' + (char)size;
    if (size < sizeof(float) || length <= before || strncmp(factor, word, before) != 0 || factor[length - 1] != ')')
        return false;
    const char *said = factor + before;
    length -= before + 1;
    return (length == strlen(name) && strncmp(said, name, length) == 0) || is_alias(sources, name, said, length);
}

/* Whether a text has none of the other operators outside of its brackets. */
static bool
is_product(const char *text, size_t length, const char *others)
{
    for (size_t i = 0; i < length;) {
        bool is_name = strncmp(text + i, "->", 2) == 0 || strncmp(text + i, "::", 2) == 0;
        if (!is_name && strchr(others, text[i]) != NULL)
            return false;
        i = strchr("([", text[i]) != NULL ? source_close(text, i) : i + 1 + is_name;
    }
    return true;
}

/* "count" of "count * sizeof(float)" and "sizeof(float) * count", "(bytes) / 4" of "bytes". */
static void
count_text(const struct sources *sources, const char *said, uint32_t type, char text[LIFT_BYTES + 16])
{
    static const char times[] = " * ", sums[] = "+-?:<>&|", quotients[] = "+-?:<>&|/%";
    char copy[LIFT_BYTES];
    snprintf(copy, sizeof(copy), "%s", said);
    char *bytes = lift_bare(copy), *first = strstr(bytes, times), *last = first;
    for (char *next = first; next != NULL; next = strstr(next + 1, times))
        last = next;
    uint32_t size = scout_type_bytes(type) > 0 ? scout_type_bytes(type) : 4;
    const char *behind = last != NULL ? last + strlen(times) : bytes,
               *rest = first != NULL ? first + strlen(times) : bytes;
    bool ends = last != NULL && is_element(sources, behind, strlen(behind), type) &&
                is_product(bytes, (size_t)(last - bytes), sums);
    bool begins = first != NULL && is_element(sources, bytes, (size_t)(first - bytes), type) &&
                  is_product(rest, strlen(rest), quotients);
    if (ends)
        *last = '\0';
    if (ends || begins)
        snprintf(text, LIFT_BYTES + 16, "%s", lift_bare(ends ? bytes : bytes + (rest - bytes)));
    else if (is_product(bytes, strlen(bytes), " *+-?:<>&|/%"))
        snprintf(text, LIFT_BYTES + 16, "%s / %" PRIu32, bytes, size);
    else
        snprintf(text, LIFT_BYTES + 16, "(%s) / %" PRIu32, bytes, size);
}

/* The line of a tensor, as its memory is said. */
static bool
write_tensor(const struct search *search, const struct scout_tensor *tensor, const struct lifted *said,
             char text[TEXT_BYTES])
{
    char count[LIFT_BYTES + 16], group[48] = "", memory[LIFT_BYTES + 48];
    uint32_t bytes = scout_type_bytes(tensor->type);
    bool is_whole = tensor->lo == 0 && tensor->hi == search->log->allocs[tensor->alloc].bytes;
    if (is_whole && said->bytes[0] != '\0')
        count_text(&search->sources, said->bytes, tensor->type, count);
    else
        snprintf(count, sizeof(count), "%" PRIu64, (tensor->hi - tensor->lo) / (bytes > 0 ? bytes : 4));
    if (tensor->lo > 0)
        snprintf(memory, sizeof(memory), "(char *)(%s) + %" PRIu64, said->memory, tensor->lo);
    else
        snprintf(memory, sizeof(memory), "%s", said->memory);
    if (search->to->groups > 1)
        snprintf(group, sizeof(group), "DDP_GRADIENT_GROUP(%" PRIu32 "); ",
                 tensor->group != GROUP_NONE ? search->to->group_of[tensor->group] : 0);
    return snprintf(text, TEXT_BYTES, "%s%s(%s, %s, %s);%s", group, macro_of(search->log, tensor), memory, count,
                    type_word(tensor->type), tensor->guessed ? " /* the type is a guess */" : "") < TEXT_BYTES;
}

/* Whether an operation may set memory of the allocation; what steps launch, too, reads it. */
static bool
sets(const struct search *search, const struct scout_op *op, uint32_t alloc)
{
    if (op->kind == SCOUT_COPY || op->kind == SCOUT_FILL)
        return op->to.alloc == alloc;
    return ANY(argument, op->arguments, op->argument_count, argument->alloc == alloc) &&
           !ANY(it, &search->ops[search->first], search->period, it->name == op->name);
}

/* The last operation before the first step that sets the tensor; SCOUT_NONE: none, or it needs none. */
static uint32_t
setting_of(const struct search *search, const struct scout_tensor *tensor)
{
    const struct scout_alloc *alloc = &search->log->allocs[tensor->alloc];
    for (uint32_t i = search->start; tensor->role != ROLE_GRADIENT && i-- > alloc->made_at;)
        if (sets(search, &search->ops[i], tensor->alloc))
            return i;
    return SCOUT_NONE;
}

/* Whether two gradients lie in one place, at different times. */
static bool
share_place(const struct search *search, const struct scout_tensor *a, const struct scout_tensor *b)
{
    return a->role == ROLE_GRADIENT && b->role == ROLE_GRADIENT && a->group != b->group &&
           search->memory_of[a->alloc] == search->memory_of[b->alloc] && a->lo < b->hi && b->lo < a->hi;
}

/* A gradient, and all that lies in its place at other times: one annotation is of all of it. */
static struct scout_tensor
widen(const struct search *search, const struct scout_tensor *tensor)
{
    struct scout_tensor wide = *tensor;
    FOR_EACH(other, search->finding->tensors, search->finding->tensor_count) {
        bool shares = share_place(search, tensor, other);
        wide.lo = shares && other->lo < wide.lo ? other->lo : wide.lo;
        wide.hi = shares && other->hi > wide.hi ? other->hi : wide.hi;
    }
    return wide;
}

/* The spot and the line of a tensor in the function of frame `depth`. */
static bool
find_tensor_line(struct search *search, const struct scout_tensor *tensor, uint32_t depth, struct spot *spot,
                 char text[TEXT_BYTES])
{
    struct stack made = spot_stack(search, search->log->allocs[tensor->alloc].site), set = {0};
    uint32_t setting = setting_of(search, tensor), least = 0, at_set = 0;
    struct scout_tensor wide = widen(search, tensor);
    struct lifted said;
    bool parts = false;
    if (setting != SCOUT_NONE) {
        set = spot_stack_of(search, setting);
        parts = spot_find_parting(made, set, &least, &at_set);
        least += !parts; /* a last call that is a jump leaves no frame: behind the call of both */
    }
    if (depth < least || depth >= made.count || !lift(&search->sources, made.frames, depth, &said) ||
        said.memory[0] == '\0')
        return false;
    bool ok = parts && depth == least
                  ? spot_find_behind_both(search, &made.frames[depth], &set.frames[at_set], spot, &said)
                  : spot_find_behind(search, &made.frames[depth], spot);
    snprintf(spot->name, sizeof(spot->name), "%s", said.memory);
    return ok && write_tensor(search, &wide, &said, text);
}

bool
insertions_have(const struct scout_log *log, const struct scout_finding *finding, const struct scout_tensor *tensor)
{
    return tensor->role == ROLE_GRADIENT ||
           (macro_of(log, tensor) != NULL && !scout_is_in_gradient(finding, tensor)); /* DDP_GRADIENT says it */
}

/* Whether all memory that the calls up to frame `depth` allocate gets this line there. */
static bool
is_of_all(struct search *search, const struct scout_tensor *tensor, uint32_t depth, const struct spot *spot,
          const char *line)
{
    const struct scout_log *log = search->log;
    struct stack ours = spot_stack(search, log->allocs[tensor->alloc].site);
    for (uint32_t a = 0; a < log->alloc_count; ++a) {
        struct stack stack = spot_stack(search, log->allocs[a].site);
        bool found = search->memory_of[a] == search->memory_of[tensor->alloc];
        if (found || !spot_is_same_chain(ours, stack, depth))
            continue;
        FOR_EACH_UNTIL(other, search->finding->tensors, search->finding->tensor_count, found) {
            struct spot there;
            char text[TEXT_BYTES];
            found = insertions_have(log, search->finding, other) &&
                    search->memory_of[other->alloc] == search->memory_of[a] &&
                    find_tensor_line(search, other, depth, &there, text) && strcmp(text, line) == 0 &&
                    there.node == spot->node && there.behind == spot->behind;
        }
        if (!found)
            return false;
    }
    return true;
}

/* Returns the name of its memory in the source; NULL: it has no line. */
static char *
place_tensor(struct search *search, const struct scout_tensor *tensor)
{
    struct stack made = spot_stack(search, search->log->allocs[tensor->alloc].site);
    struct spot spot;
    char text[TEXT_BYTES];
    for (uint32_t depth = 0; depth < made.count; ++depth)
        if (find_tensor_line(search, tensor, depth, &spot, text) && is_of_all(search, tensor, depth, &spot, text)) {
            spot_add_text(search, &spot, text);
            return xstrdup(spot.name);
        }
    return NULL;
}

/* ---- tensors that have no name of their own ---- */

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
    const char *line = source->text + source_place(source, tail.line, 1);
    spot->node = source_statement_at(source, source_skip(source->text, (size_t)(line - source->text)));
    while (spot->node != NULL && spot->node->parent != NULL)
        spot->node = spot->node->parent;
    bool is_pitched = memmem(line, strcspn(line, "\n"), "MallocPitch", 11) != NULL;
    if (spot->node == NULL || is_pitched || !spot_has_line(spot))
        return false;
    spot->behind = spot->node->end;
    return spot_has_line(spot);
}

/* In front of the first step, after all that sets a tensor: the innermost place that two calls show. */
static bool
find_front(struct search *search, const struct scout_tensor *tensor, struct spot *spot)
{
    uint32_t setting = setting_of(search, tensor), at_set, at_step;
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

/* Tensors that still have no line: their allocations are counted, and tensors annotated by
 * number in front of the first step. */
static void
place_by_number(struct search *search)
{
    const struct scout_log *log = search->log;
    const struct scout_finding *finding = search->finding;
    bool *counted = search->counted;
    struct spot front = {0}, spot;
    uint32_t count;
    FOR_EACH(tensor, finding->tensors, finding->tensor_count) {
        if (!insertions_have(log, finding, tensor) || search->to->names[NUMBER_OF(tensor)] != NULL ||
            scout_is_remade(log, finding, tensor->alloc) || !is_front(search, tensor->alloc) ||
            !find_front(search, tensor, &spot))
            continue;
        counted[tensor->alloc] = true;
        if (front.node == NULL || spot.node->begin > front.node->begin)
            front = spot;
    }
    for (uint32_t a = 0; a < log->alloc_count; ++a)
        counted[a] = counted[a] && is_front(search, a) && find_maker(search, a, &spot);
    bool has_room = count_allocations(search, &front, &count);
    for (uint32_t a = 0; a < log->alloc_count && has_room; ++a) {
        if (search->number[a] == SCOUT_NONE || !find_maker(search, a, &spot))
            continue;
        bool is_managed = log->allocs[a].memory == SCOUT_MANAGED;
        spot_add_text(search, &spot, is_managed ? "#undef cudaMallocManaged" : "#undef cudaMalloc"); /* after it */
        spot.behind = 0;
        spot_add_text(search, &spot,
                      is_managed ? "#define cudaMallocManaged ddp_malloc_managed" : "#define cudaMalloc ddp_malloc");
    }
    char text[TEXT_BYTES];
    snprintf(text, sizeof(text), "ddp_check_made(%" PRIu32 ");", count);
    if (count > 0 && has_room && front.node != NULL)
        spot_add_text(search, &front, text);
    for (uint32_t i = 0; i < finding->tensor_count && has_room; ++i) {
        const struct scout_tensor *tensor = &finding->tensors[i], wide = widen(search, tensor);
        if (!insertions_have(log, finding, tensor) || search->to->names[i] != NULL || !counted[tensor->alloc] ||
            search->number[tensor->alloc] >= count || front.node == NULL)
            continue;
        struct lifted said = {0};
        snprintf(said.memory, sizeof(said.memory), "ddp_made[%" PRIu32 "].memory", search->number[tensor->alloc]);
        snprintf(said.bytes, sizeof(said.bytes), "ddp_made[%" PRIu32 "].bytes", search->number[tensor->alloc]);
        if (write_tensor(search, &wide, &said, text)) {
            spot_add_text(search, &front, text);
            search->to->names[i] = xstrdup(said.memory);
        }
    }
}

/* ---- groups ---- */

/* Whether one call allocates two gradients of different groups, in each step. */
static bool
share_call(const struct search *search, const struct scout_tensor *a, const struct scout_tensor *b)
{
    const struct scout_alloc *allocs = search->log->allocs;
    bool are_gradients = a->role == ROLE_GRADIENT && b->role == ROLE_GRADIENT && a->group != b->group;
    return are_gradients && scout_is_remade(search->log, search->finding, a->alloc) &&
           scout_is_remade(search->log, search->finding, b->alloc) &&
           spot_is_same_chain(spot_stack(search, allocs[a->alloc].site), spot_stack(search, allocs[b->alloc].site), 0);
}

/* Whether one annotation names two gradients: they share memory, or one call allocates them in each step. */
static bool
share_annotation(const struct search *search, const struct scout_tensor *a, const struct scout_tensor *b)
{
    return share_place(search, a, b) || share_call(search, a, b);
}

/* Gives groups of numbers x and y the smaller one. */
static void
join_numbers(uint32_t *number, uint32_t count, uint32_t x, uint32_t y)
{
    const uint32_t less = x < y ? x : y;
    for (uint32_t g = 0; g < count; ++g)
        if (number[g] == x || number[g] == y)
            number[g] = less;
}

/* An annotation gives a gradient one group, so groups that share one get one number, and a step each. What such a step
 * averages once more is the same on all ranks, and stays. So do all groups where there are more than numbers. */
static void
number_groups(const struct search *search)
{
    const struct scout_finding *finding = search->finding;
    uint32_t *number = search->to->group_of;
    for (uint32_t g = 0; g < finding->group_count; ++g)
        number[g] = g;
    FOR_EACH(a, finding->tensors, finding->tensor_count)
        FOR_EACH(b, finding->tensors, a - finding->tensors) {
            if (!share_annotation(search, a, b))
                continue;
            if (search->memory_of[a->alloc] != search->memory_of[b->alloc])
                search->to->forgotten = a->alloc;
            join_numbers(number, finding->group_count, number[a->group], number[b->group]);
        }
    for (uint32_t g = 0; g < finding->group_count; ++g) /* without gaps; a number is that of its first group */
        number[g] = number[g] < g ? number[number[g]] : search->to->groups++;
    if (search->to->groups > GROUPS_AT_MOST) {
        memset(number, 0, finding->group_count * sizeof(*number));
        search->to->groups = 1;
    }
}

/* ---- steps ---- */

/* Between the calls of one function that lead to two operations; `behind` the first, or in front of the second. */
static bool
find_between(struct search *search, uint32_t first, uint32_t second, bool behind, struct spot *spot)
{
    struct site_place frames[2][SITE_FRAMES_AT_MOST];
    struct stack a = {frames[0], spot_fill_stack(search, first, frames[0])},
                 b = {frames[1], spot_fill_stack(search, second, frames[1])};
    uint32_t at_first, at_second;
    *spot = (struct spot){0};
    if (!spot_find_parting(a, b, &at_first, &at_second))
        return false;
    const struct source_node *from = spot_node(search, a.frames, at_first),
                             *to = spot_node(search, b.frames, at_second);
    if (from == NULL || to == NULL)
        return false;
    const struct source_node *front = source_beside(from, to), *back = source_beside(to, from);
    spot->node = behind ? front : back;
    if (spot->node == NULL || front == back) /* one is in the header of a loop or a condition around the other */
        return false;
    if (!behind)
        return spot_is_usable(spot);
    if (source_line(from->source, front->end) == source_line(from->source, back->begin))
        return false;
    if (spot_leaves(from, front)) {
        spot->node = from;
        spot->behind = from->end;
        return true;
    }
    spot->behind = spot_end_of_line(front);
    return spot_is_usable(spot);
}

static bool
place_step(struct search *search, uint32_t number)
{
    struct spot spot;
    const struct scout_group *group = &search->finding->groups[number];
    if (group->fused && search->to->unturned == NULL)
        return true; /* its region has the line */
    uint32_t before = group->before - (group->before < search->first + search->period ? 0 : search->period);
    bool is_behind = group->fused || before < group->complete;
    if (!find_between(search, group->complete, before, is_behind, &spot))
        return false;
    spot_add_step(search, &spot, number);
    return true;
}

/* ---- all ---- */

/* Operations before the first step: what follows them comes in each step. They end before the first update. */
static void
find_start(struct search *search)
{
    const struct scout_op *ops = search->ops;
    const struct scout_group *group = search->finding->groups;
    const struct scout_op *update = &ops[group->fused ? group->complete : group->before];
    while (search->start < search->first && !scout_is_same_call(&ops[search->start], update))
        ++search->start;
    while (search->start > 0 && scout_is_same_call(&ops[search->start - 1], &ops[search->start - 1 + search->period]))
        --search->start;
    while (search->begun < search->start && ops[search->begun].site != ops[search->first].site)
        ++search->begun;
}

void
insertions_find(struct sites *sites, const struct scout_log *log, const struct scout_finding *finding,
                struct insertions *insertions)
{
    static const enum scout_role roles[] = {ROLE_PARAMETER, ROLE_OPTIMIZER_STATE, ROLE_AVERAGE, ROLE_STATISTICS,
                                            ROLE_GRADIENT};
    struct search search = {.sites = sites,
                            .log = log,
                            .ops = log->ops,
                            .finding = finding,
                            .first = finding->first,
                            .period = finding->period,
                            .end = finding->end,
                            .to = insertions,
                            .counted = xcalloc(log->alloc_count + 1, sizeof(*search.counted)),
                            .number = xcalloc(log->alloc_count + 1, sizeof(*search.number))};
    *insertions = (struct insertions){.forgotten = SCOUT_NONE,
                                      .names = xcalloc(finding->tensor_count + 1, sizeof(char *)),
                                      .placed_steps = xcalloc(finding->group_count + 1, sizeof(bool)),
                                      .group_of = xcalloc(finding->group_count + 1, sizeof(uint32_t))};
    (void)graph_name_memories(log, &search.memory_of);
    find_start(&search);
    number_groups(&search);
    FOR_EACH(role, roles, sizeof(roles) / sizeof(roles[0]))
        FOR_EACH(tensor, finding->tensors, finding->tensor_count)
            if (tensor->role == *role && insertions_have(log, finding, tensor))
                insertions->names[NUMBER_OF(tensor)] = place_tensor(&search, tensor);
    place_by_number(&search);
    regions_place(&search);
    if (insertions->unturned == NULL) {
        counters_place(&search);
        hosts_note(&search);
    }
    for (uint32_t g = 0; g < finding->group_count; ++g)
        insertions->placed_steps[g] = place_step(&search, g);
    SORT(insertions->items, insertions->count, compare_insertions);
    sources_close(&search.sources);
    free(search.memory_of);
    free(search.counted);
    free(search.number);
    free(search.borders);
}

void
insertions_free(struct insertions *insertions, uint32_t tensors)
{
    for (uint32_t i = 0; i < tensors; ++i)
        free(insertions->names[i]);
    for (uint32_t i = 0; i < insertions->count; ++i) {
        free(insertions->items[i].file);
        free(insertions->items[i].text);
    }
    for (uint32_t i = 0; i < insertions->note_count; ++i)
        free(insertions->notes[i]);
    free(insertions->notes);
    free(insertions->items);
    free(insertions->names);
    free(insertions->regions);
    free(insertions->placed_steps);
    free(insertions->group_of);
}
