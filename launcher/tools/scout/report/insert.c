/*
 * insert.c - see insert.h.
 *
 * A tensor is annotated behind its allocation, a parameter and state behind the operation that sets it last before the
 * first step, too, in the innermost function that says its name and comes by for nothing else. The boundary stands in
 * the innermost function that leads to both the last write of a gradient and the first read.
 */
#include "launcher/tools/scout/report/insert.h"

#include "launcher/common/xcalloc.h"
#include "launcher/tools/scout/analysis/graph.h"
#include "launcher/tools/scout/report/lift.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DATA_BYTES = 64, LOOPS_AT_MOST = 4, TEXT_BYTES = 1024 };

struct search {
    struct sites *sites;
    const struct scout_log *log;
    const struct scout_finding *finding;
    struct sources sources;
    struct insertions *to;
    uint32_t *memory_of; /* of each allocation */
    uint32_t start;      /* operations before the first step */
};

struct stack {
    const struct site_place *frames;
    uint32_t count;
};

/* Where lines go, and between what: behind a statement that is the whole body of a loop they need braces. */
struct spot {
    const struct source *source;
    uint32_t node;
    size_t behind; /* 0: in front of the node; else behind this place */
    bool needs_braces;
    char loops[LIFT_BYTES];             /* "for (...) " around the line, "" without one */
    const struct site_place *from, *to; /* of a boundary: the calls of the last write and of the first read */
};

static struct stack
stack_of(const struct search *search, uint32_t site)
{
    struct stack stack;
    stack.frames = sites_frames(search->sites, site, &stack.count);
    return stack;
}

static bool
is_same(const struct site_place *a, const struct site_place *b)
{
    return a->line == b->line && a->column == b->column && strcmp(a->file, b->file) == 0;
}

/* The frames of two stacks that are calls of one function: *a_p, *b_p. Inside them the stacks have nothing in common.
 * False: the stacks have no function in common, or are one. */
static bool
find_parting(const struct stack *a, const struct stack *b, uint32_t *a_p, uint32_t *b_p)
{
    uint32_t i = a->count, j = b->count;
    while (i > 0 && j > 0 && is_same(&a->frames[i - 1], &b->frames[j - 1]))
        --i, --j;
    *a_p = i - 1;
    *b_p = j - 1;
    return i > 0 && j > 0 && strcmp(a->frames[i - 1].file, b->frames[j - 1].file) == 0 &&
           strcmp(a->frames[i - 1].function, b->frames[j - 1].function) == 0;
}

/* Whether two stacks have the same frames from the call outwards to frame `depth`. */
static bool
is_same_chain(const struct stack *a, const struct stack *b, uint32_t depth)
{
    for (uint32_t i = 0; i <= depth; ++i)
        if (i >= a->count || i >= b->count || !is_same(&a->frames[i], &b->frames[i]))
            return false;
    return true;
}

/* ---- lines ---- */

static void
add(struct insertions *to, const char *file, int line, const char *text)
{
    for (uint32_t i = 0; i < to->count; ++i)
        if (to->items[i].line == line && strcmp(to->items[i].text, text) == 0 && strcmp(to->items[i].file, file) == 0)
            return;
    to->items = xrealloc(to->items, (to->count + 1) * sizeof(*to->items));
    to->items[to->count++] = (struct insertion){xstrdup(file), line, xstrdup(text)};
}

/* Whether a whole line can be put there. */
static bool
is_usable(const struct spot *spot)
{
    const struct source *source = spot->source;
    if (spot->behind == 0)
        return source_begins_line(source, spot->node);
    const char *text = source->text + source->nodes[spot->node].begin;
    size_t at = spot->behind, line = at + strcspn(source->text + at, "\n");
    return source_skip(source->text, at) >= line && strncmp(text, "return", 6) != 0 &&
           (!spot->needs_braces || source_begins_line(source, spot->node));
}

static int
line_of(const struct spot *spot)
{
    return spot->behind == 0 ? source_line(spot->source, spot->source->nodes[spot->node].begin)
                             : source_line(spot->source, spot->behind) + 1;
}

static void
add_at(struct search *search, const struct spot *spot, const char *text)
{
    const char *path = spot->source->path;
    char *whole = xasprintf("%s%s", spot->loops, text);
    if (spot->needs_braces)
        add(search->to, path, source_line(spot->source, spot->source->nodes[spot->node].begin), "{");
    add(search->to, path, line_of(spot), whole);
    free(whole);
    if (spot->needs_braces)
        add(search->to, path, line_of(spot), "}");
    add(search->to, path, 1, "#include <ddprun.h>");
}

static int
compare_insertions(const void *a, const void *b, void *context)
{
    const struct insertion *items = context, *x = &items[*(const uint32_t *)a], *y = &items[*(const uint32_t *)b];
    int file = strcmp(x->file, y->file);
    if (file != 0)
        return file;
    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    if ((strcmp(x->text, "}") == 0) != (strcmp(y->text, "}") == 0)) /* what it closes comes first */
        return strcmp(x->text, "}") == 0 ? 1 : -1;
    return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

static void
sort(struct insertions *to)
{
    uint32_t *order = xcalloc(to->count + 1, sizeof(*order));
    struct insertion *sorted = xcalloc(to->count + 1, sizeof(*sorted));
    for (uint32_t i = 0; i < to->count; ++i)
        order[i] = i;
    qsort_r(order, to->count, sizeof(*order), compare_insertions, to->items);
    for (uint32_t i = 0; i < to->count; ++i)
        sorted[i] = to->items[order[i]];
    free(order);
    free(to->items);
    to->items = sorted;
}

/* ---- spots ---- */

static uint32_t
node_of(struct search *search, const struct site_place *place, const struct source **source_p)
{
    *source_p = sources_open(&search->sources, place->file);
    return *source_p != NULL ? source_statement(*source_p, place->line, place->column) : NODE_NONE;
}

/* Behind the last statement of the line that begins behind a statement, in the same block. */
static size_t
end_of_line(const struct source *source, uint32_t node)
{
    size_t end = source->nodes[node].end;
    for (uint32_t i = node + 1; i < source->count; ++i)
        if (source->nodes[i].parent == source->nodes[node].parent && source->nodes[i].begin >= end &&
            source_line(source, source->nodes[i].begin) == source_line(source, end))
            end = source->nodes[i].end;
    return end;
}

/* Behind the statement of a frame; in a function's header, at the begin of its body. */
static bool
find_behind(struct search *search, const struct site_place *place, struct spot *spot)
{
    *spot = (struct spot){0};
    spot->node = node_of(search, place, &spot->source);
    if (spot->node == NODE_NONE)
        return false;
    const struct source_node *node = &spot->source->nodes[spot->node];
    spot->behind = node->end;
    if (node->parent != NODE_NONE && spot->source->nodes[node->parent].is_block &&
        source_function(spot->source, spot->node) != spot->node) {
        spot->behind = end_of_line(spot->source, spot->node);
        return is_usable(spot);
    }
    uint32_t block = source_block(spot->source, spot->node);
    if (source_function(spot->source, spot->node) == spot->node && block != NODE_NONE)
        spot->behind = spot->source->nodes[block].begin + 1;
    else
        spot->needs_braces = true;
    return node->parent != NODE_NONE && is_usable(spot);
}

/* The heads of the loops around a statement, up to `outermost`. False: what is around it is more than loops, or the
 * expressions use what is declared there. */
static bool
copy_loops(const struct source *source, uint32_t node, uint32_t outermost, const struct lifted *said,
           char loops[LIFT_BYTES])
{
    size_t said_at = source->nodes[node].begin;
    char text[LIFT_BYTES];
    for (uint32_t at = source->nodes[node].parent; at != NODE_NONE; at = source->nodes[at].parent) {
        const struct source_node *loop = &source->nodes[at];
        size_t inside = at + 1 < source->count ? source->nodes[at + 1].begin : loop->end;
        if (loop->is_block) {
            if (lift_uses_local(source, said->memory, loop->begin + 1, said_at + 1) ||
                lift_uses_local(source, said->bytes, loop->begin + 1, said_at + 1))
                return false;
        } else if (!loop->is_loop || strncmp(source->text + loop->begin, "for", 3) != 0 ||
                   snprintf(text, sizeof(text), "%.*s%s", (int)(inside - loop->begin), source->text + loop->begin,
                            loops) >= LIFT_BYTES) {
            return false;
        } else {
            size_t length = 0;
            for (size_t i = 0; text[i] != '\0'; ++i) { /* on one line */
                bool is_blank = strchr(" \t\n", text[i]) != NULL;
                if (!is_blank)
                    loops[length++] = text[i];
                else if (length > 0 && loops[length - 1] != ' ')
                    loops[length++] = ' ';
            }
            loops[length] = '\0';
        }
        if (at == outermost)
            return true;
    }
    return false;
}

/* Behind the statement `set`, for what is said at the statement `made` of the same function. */
static bool
find_behind_both(struct search *search, const struct site_place *made, const struct site_place *set,
                 const struct lifted *said, struct spot *spot)
{
    *spot = (struct spot){0};
    uint32_t from = node_of(search, made, &spot->source), to = node_of(search, set, &spot->source);
    if (from == NODE_NONE || to == NODE_NONE)
        return false;
    uint32_t ours = source_beside(spot->source, from, to);
    spot->node = source_beside(spot->source, to, from);
    if (ours == NODE_NONE || spot->node == NODE_NONE || ours == spot->node)
        return false;
    if (ours != from && !copy_loops(spot->source, from, ours, said, spot->loops))
        return false;
    if (spot->source->nodes[ours].end > spot->source->nodes[spot->node].end)
        spot->node = ours;
    spot->behind = spot->source->nodes[spot->node].end;
    return is_usable(spot);
}

/* ---- tensors ---- */

static const char *
type_word(uint32_t type)
{
    static const char *const words[] = {"DDP_FLOAT32", "DDP_FLOAT32",  "DDP_FLOAT64",
                                        "DDP_FLOAT16", "DDP_BFLOAT16", "DDP_INT32"};
    return type < sizeof(words) / sizeof(words[0]) ? words[type] : words[0];
}

static const char *
macro_of(enum scout_role role)
{
    switch (role) {
    case ROLE_PARAMETER:
        return "DDP_PARAMETER";
    case ROLE_GRADIENT:
        return "DDP_GRADIENT";
    case ROLE_OPTIMIZER_STATE:
    case ROLE_AVERAGE:
        return "DDP_STATE";
    default:
        return NULL;
    }
}

/* Takes the brackets away that are around all of an expression. */
static char *
bare(char *expression)
{
    size_t length = strlen(expression);
    while (expression[0] == '(' && source_close(expression, 0) == length) {
        expression[length - 1] = '\0';
        ++expression;
        length -= 2;
    }
    return expression;
}

/* "count" of "count * sizeof(float)", "(bytes) / 4" of "bytes". */
static void
count_text(const char *said, uint32_t type, char text[LIFT_BYTES + 16])
{
    char copy[LIFT_BYTES];
    snprintf(copy, sizeof(copy), "%s", said);
    char *bytes = bare(copy);
    uint32_t size = scout_type_bytes(type) > 0 ? scout_type_bytes(type) : 4;
    char endings[2][24];
    snprintf(endings[0], sizeof(endings[0]), " * sizeof(%s)", type == SCOUT_FLOAT64 ? "double" : "float");
    snprintf(endings[1], sizeof(endings[1]), " * %" PRIu32, size);
    for (size_t i = size < 4; i < sizeof(endings) / sizeof(endings[0]); ++i) {
        size_t length = strlen(bytes), cut = strlen(endings[i]);
        if (length > cut && strcmp(bytes + length - cut, endings[i]) == 0) {
            bytes[length - cut] = '\0';
            snprintf(text, LIFT_BYTES + 16, "%s", bare(bytes));
            return;
        }
    }
    snprintf(text, LIFT_BYTES + 16, "(%s) / %" PRIu32, bytes, size);
}

/* The line of a tensor, as its memory is said. */
static bool
tensor_text(const struct search *search, const struct scout_tensor *tensor, const struct lifted *said,
            char text[TEXT_BYTES])
{
    char count[LIFT_BYTES + 16], group[48] = "", memory[LIFT_BYTES + 48];
    uint32_t bytes = scout_type_bytes(tensor->type);
    bool is_whole = tensor->lo == 0 && tensor->hi == search->log->allocs[tensor->alloc].bytes;
    if (said->memory[0] == '\0')
        return false;
    if (is_whole && said->bytes[0] != '\0')
        count_text(said->bytes, tensor->type, count);
    else
        snprintf(count, sizeof(count), "%" PRIu64, (tensor->hi - tensor->lo) / (bytes > 0 ? bytes : 4));
    if (tensor->lo > 0)
        snprintf(memory, sizeof(memory), "(char *)(%s) + %" PRIu64, said->memory, tensor->lo);
    else
        snprintf(memory, sizeof(memory), "%s", said->memory);
    if (search->finding->group_count > 1)
        snprintf(group, sizeof(group), "DDP_GRADIENT_GROUP(%" PRIu32 "); ",
                 tensor->group != GROUP_NONE ? tensor->group : 0);
    return snprintf(text, TEXT_BYTES, "%s%s(%s, %s, %s);%s", group, macro_of(tensor->role), memory, count,
                    type_word(tensor->type), tensor->guessed ? " /* the type is a guess */" : "") < TEXT_BYTES;
}

/* Whether an operation may set memory of the allocation; what steps launch, too, reads it. */
static bool
sets(const struct search *search, const struct scout_op *op, uint32_t alloc)
{
    const struct scout_finding *finding = search->finding;
    if (op->kind == SCOUT_COPY || op->kind == SCOUT_FILL)
        return op->to.alloc == alloc;
    for (uint32_t i = finding->first; i < finding->first + finding->period; ++i)
        if (search->log->ops[i].name == op->name)
            return false;
    for (uint32_t i = 0; i < op->argument_count; ++i)
        if (op->arguments[i].alloc == alloc)
            return true;
    return false;
}

/* The last operation before the first step that sets the tensor; SCOUT_NONE: none, or it needs none. */
static uint32_t
setting_of(const struct search *search, const struct scout_tensor *tensor)
{
    const struct scout_alloc *alloc = &search->log->allocs[tensor->alloc];
    for (uint32_t i = search->start; tensor->role != ROLE_GRADIENT && i-- > alloc->made_at;)
        if (sets(search, &search->log->ops[i], tensor->alloc))
            return i;
    return SCOUT_NONE;
}

/* The spot and the line of a tensor in the function of frame `depth`. */
static bool
find_tensor_line(struct search *search, const struct scout_tensor *tensor, uint32_t depth, struct spot *spot,
                 char text[TEXT_BYTES])
{
    struct stack made = stack_of(search, search->log->allocs[tensor->alloc].site), set = {0};
    uint32_t setting = setting_of(search, tensor), least = 0, at_set = 0;
    struct lifted said;
    bool parts = false;
    if (setting != SCOUT_NONE) {
        set = stack_of(search, search->log->ops[setting].site);
        parts = find_parting(&made, &set, &least, &at_set);
        if (!parts)
            return false;
    }
    if (depth < least || depth >= made.count || !lift(&search->sources, made.frames, depth, &said) ||
        !tensor_text(search, tensor, &said, text))
        return false;
    return parts && depth == least ? find_behind_both(search, &made.frames[depth], &set.frames[at_set], &said, spot)
                                   : find_behind(search, &made.frames[depth], spot);
}

bool
insertions_wants(const struct scout_tensor *tensor)
{
    return macro_of(tensor->role) != NULL;
}

/* Whether all memory that the calls up to frame `depth` allocate gets this line there. */
static bool
is_of_all(struct search *search, const struct scout_tensor *tensor, uint32_t depth, const struct spot *spot,
          const char *line)
{
    const struct scout_log *log = search->log;
    struct stack ours = stack_of(search, log->allocs[tensor->alloc].site);
    for (uint32_t a = 0; a < log->alloc_count; ++a) {
        struct stack stack = stack_of(search, log->allocs[a].site);
        bool found = search->memory_of[a] == search->memory_of[tensor->alloc];
        if (found || !is_same_chain(&ours, &stack, depth))
            continue;
        for (uint32_t t = 0; t < search->finding->tensor_count && !found; ++t) {
            const struct scout_tensor *other = &search->finding->tensors[t];
            struct spot there;
            char text[TEXT_BYTES];
            found = insertions_wants(other) && search->memory_of[other->alloc] == search->memory_of[a] &&
                    find_tensor_line(search, other, depth, &there, text) && strcmp(text, line) == 0 &&
                    there.source == spot->source && there.node == spot->node && there.behind == spot->behind;
        }
        if (!found)
            return false;
    }
    return true;
}

static bool
place_tensor(struct search *search, const struct scout_tensor *tensor)
{
    struct stack made = stack_of(search, search->log->allocs[tensor->alloc].site);
    struct spot spot;
    char text[TEXT_BYTES];
    for (uint32_t depth = 0; depth < made.count; ++depth)
        if (find_tensor_line(search, tensor, depth, &spot, text) && is_of_all(search, tensor, depth, &spot, text)) {
            add_at(search, &spot, text);
            return true;
        }
    return false;
}

/* ---- steps ---- */

/* Between the calls of one function that lead to two operations; `behind` the first of them, or in front of the second.
 */
static bool
find_between(struct search *search, uint32_t first, uint32_t second, bool behind, struct spot *spot)
{
    struct stack a = stack_of(search, search->log->ops[first].site),
                 b = stack_of(search, search->log->ops[second].site);
    uint32_t at_first, at_second;
    *spot = (struct spot){0};
    if (!find_parting(&a, &b, &at_first, &at_second))
        return false;
    uint32_t from = node_of(search, &a.frames[at_first], &spot->source),
             to = node_of(search, &b.frames[at_second], &spot->source);
    if (from == NODE_NONE || to == NODE_NONE || from == to)
        return false;
    spot->node = behind ? source_beside(spot->source, from, to) : source_beside(spot->source, to, from);
    if (spot->node == NODE_NONE)
        return false;
    spot->behind = behind ? spot->source->nodes[spot->node].end : 0;
    spot->from = &a.frames[at_first];
    spot->to = &b.frames[at_second];
    return is_usable(spot);
}

/* Whether an earlier group has its boundary between the same two calls: they are in a loop over groups. */
static bool
is_in_loop(const struct spot *spots, uint32_t number)
{
    for (uint32_t i = 0; i < number; ++i)
        if (spots[i].from != NULL && is_same(spots[i].from, spots[number].from) &&
            is_same(spots[i].to, spots[number].to))
            return true;
    return false;
}

static bool
place_step(struct search *search, uint32_t number, struct spot *spots)
{
    const struct scout_finding *finding = search->finding;
    const struct scout_group *group = &finding->groups[number];
    const char *word = group->fused ? "DDP_STEP_PARAMETERS" : "DDP_STEP";
    uint32_t border = finding->first + finding->period;
    uint32_t before = group->before < border ? group->before : group->before - finding->period;
    char text[64];
    if (finding->group_count == 1)
        snprintf(text, sizeof(text), "%s(0);", word);
    else
        snprintf(text, sizeof(text), "%s_GROUP(%" PRIu32 ", 0);", word, number);
    bool is_behind = group->fused || before < group->complete;
    if (!find_between(search, group->complete, before, is_behind, &spots[number]) || is_in_loop(spots, number))
        return false;
    add_at(search, &spots[number], text);
    return true;
}

/* ---- data ---- */

static bool
is_data(const struct scout_op *op)
{
    return op->kind == SCOUT_COPY && op->from.alloc == SCOUT_NONE && op->to.alloc != SCOUT_NONE && op->rows == 1 &&
           op->bytes > DATA_BYTES;
}

/* In place of the whole batch, the ranks' shares: a rank's own in all places. */
static void
add_share(struct search *search, const struct spot *spot, const char *bytes, const char *memory, const char *stream)
{
    char *copy =
        xasprintf(stream == NULL ? "    memmove((char *)(%s) + ddp_at, (char *)(%s) + ddp_first, ddp_count);"
                                 : "    if (ddp_at != ddp_first)\n"
                                   "            cudaMemcpyAsync((char *)(%s) + ddp_at, (char *)(%s) + ddp_first, "
                                   "ddp_count, cudaMemcpyDeviceToDevice, ",
                  memory, memory);
    char *text = xasprintf(
        "{ /* this rank's share, in the places of the other shares, too: right where the ranks divide "
        "the batch,\n"
        "   * but no faster. Faster: load, copy and compute the share's records alone. */\n"
        "    size_t ddp_bytes = %s, ddp_first, ddp_count;\n"
        "    DDP_SHARD(ddp_bytes, &ddp_first, &ddp_count);\n"
        "    for (size_t ddp_at = 0; ddp_at + ddp_count <= ddp_bytes; ddp_at += ddp_count)\n"
        "    %s%s%s\n%s}",
        bytes, copy,
        stream == NULL      ? ""
        : stream[0] == '\0' ? "0"
                            : stream,
        stream == NULL ? "" : ");", stream != NULL && stream[0] == '\0' ? "    cudaStreamSynchronize(0);\n" : "");
    if (stream == NULL)
        add(search->to, spot->source->path, 1, "#include <string.h>");
    add_at(search, spot, text);
    free(text);
    free(copy);
}

/* Whether the same buffer of the host is copied in each period: then it is filled anew, and no part of the records. */
static bool
is_staged(const struct search *search, uint32_t number)
{
    const struct scout_log *log = search->log;
    for (uint32_t i = number; i + search->finding->period < log->op_count; i += search->finding->period)
        if (log->ops[i + search->finding->period].from.offset != log->ops[number].from.offset)
            return false;
    return true;
}

static bool
next_data(const struct search *search, uint32_t *number)
{
    uint32_t end = search->finding->first + search->finding->period;
    while (*number < end && !is_data(&search->log->ops[*number]))
        ++*number;
    return *number < end;
}

/* How many of the outermost frames all copies of data have in common, inside the function that steps; 0: none. */
static uint32_t
count_common(struct search *search)
{
    const struct scout_log *log = search->log;
    struct stack first = {0}, step = stack_of(search, log->ops[search->finding->groups[0].before].site);
    uint32_t common = 0, inside, unused;
    for (uint32_t i = search->finding->first; next_data(search, &i); ++i) {
        struct stack here = stack_of(search, log->ops[i].site);
        uint32_t same = 0;
        if (!is_staged(search, i))
            return 0;
        if (first.count == 0) {
            first = here;
            same = here.count;
        }
        while (same < here.count && same < first.count &&
               is_same(&here.frames[here.count - 1 - same], &first.frames[first.count - 1 - same]))
            ++same;
        common = common == 0 || same < common ? same : common;
    }
    bool is_inside = common > 0 && find_parting(&first, &step, &inside, &unused) && common >= first.count - inside;
    return is_inside ? common : 0;
}

/* In the buffers of the host, in front of the call that copies them all. What that call is not given it makes of them.
 */
static bool
place_host_shares(struct search *search)
{
    const struct scout_log *log = search->log;
    uint32_t common = count_common(search), placed = 0;
    for (uint32_t i = search->finding->first; common > 0 && next_data(search, &i); ++i) {
        struct stack here = stack_of(search, log->ops[i].site);
        uint32_t depth = here.count - common;
        struct lifted said;
        struct spot spot = {0};
        if (depth == 0 && here.count > 1)
            ++depth; /* a single copy */
        if (!lift(&search->sources, here.frames, depth, &said) || !said.source_is_passed || said.source[0] == '\0' ||
            said.bytes[0] == '\0')
            continue;
        spot.node = node_of(search, &here.frames[depth], &spot.source);
        if (spot.node == NODE_NONE || spot.source->nodes[spot.node].parent == NODE_NONE ||
            !spot.source->nodes[spot.source->nodes[spot.node].parent].is_block || !is_usable(&spot))
            return false;
        add_share(search, &spot, bare(said.bytes), bare(said.source), NULL);
        ++placed;
    }
    return placed > 0;
}

/* On the device, behind a copy; `adds`: and puts the lines there. */
static bool
place_share(struct search *search, const struct scout_op *op, bool adds)
{
    const struct scout_log *log = search->log;
    struct stack stack = stack_of(search, op->site);
    for (uint32_t depth = 0; depth < stack.count; ++depth) {
        struct lifted said;
        struct spot spot;
        bool is_own = true;
        for (uint32_t i = 0; i < log->op_count && is_own; ++i) {
            struct stack other = stack_of(search, log->ops[i].site);
            is_own = log->ops[i].kind != SCOUT_COPY || (i >= search->start && is_data(&log->ops[i])) ||
                     !is_same_chain(&stack, &other, depth);
        }
        if (is_own && lift(&search->sources, stack.frames, depth, &said) && said.memory[0] != '\0' &&
            said.bytes[0] != '\0' && find_behind(search, &stack.frames[depth], &spot)) {
            if (adds)
                add_share(search, &spot, bare(said.bytes), bare(said.memory), said.stream);
            return true;
        }
    }
    return false;
}

/* All data, or none: labels that are not shared as their images are wrong. */
static void
place_shares(struct search *search)
{
    if (place_host_shares(search))
        return;
    for (uint32_t i = search->finding->first; next_data(search, &i); ++i)
        if (!place_share(search, &search->log->ops[i], false)) {
            search->to->open_copy = i;
            return;
        }
    for (uint32_t i = search->finding->first; next_data(search, &i); ++i)
        (void)place_share(search, &search->log->ops[i], true);
}

/* ---- all ---- */

/* Operations before the first step: those from which on everything comes again. */
static uint32_t
find_start(const struct scout_log *log, const struct scout_finding *finding)
{
    uint32_t start = finding->first;
    while (start > 0) {
        const struct scout_op *op = &log->ops[start - 1], *later = &log->ops[start - 1 + finding->period];
        if (op->kind != later->kind || op->name != later->name || op->site != later->site)
            break;
        --start;
    }
    return start;
}

void
insertions_find(struct sites *sites, const struct scout_log *log, const struct scout_finding *finding,
                struct insertions *insertions)
{
    static const enum scout_role roles[] = {ROLE_PARAMETER, ROLE_OPTIMIZER_STATE, ROLE_AVERAGE, ROLE_GRADIENT};
    struct search search = {
        .sites = sites, .log = log, .finding = finding, .to = insertions, .start = find_start(log, finding)};
    *insertions = (struct insertions){.open_copy = SCOUT_NONE,
                                      .placed = xcalloc(finding->tensor_count + 1, sizeof(bool)),
                                      .placed_steps = xcalloc(finding->group_count + 1, sizeof(bool))};
    (void)graph_name_memories(log, &search.memory_of);
    for (size_t r = 0; r < sizeof(roles) / sizeof(roles[0]); ++r)
        for (uint32_t i = 0; i < finding->tensor_count; ++i)
            if (finding->tensors[i].role == roles[r])
                insertions->placed[i] = place_tensor(&search, &finding->tensors[i]);
    if (finding->group_count > 0)
        place_shares(&search);
    struct spot *spots = xcalloc(finding->group_count + 1, sizeof(*spots));
    for (uint32_t g = 0; g < finding->group_count; ++g)
        insertions->placed_steps[g] = place_step(&search, g, spots);
    free(spots);
    sort(insertions);
    sources_close(&search.sources);
    free(search.memory_of);
}

void
insertions_free(struct insertions *insertions)
{
    for (uint32_t i = 0; i < insertions->count; ++i) {
        free(insertions->items[i].file);
        free(insertions->items[i].text);
    }
    free(insertions->items);
    free(insertions->placed);
    free(insertions->placed_steps);
    *insertions = (struct insertions){0};
}
