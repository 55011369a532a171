/* spots.c - see lines.h. */
#include "tools/scout/command/report/lines.h"

#include "tools/common/grown.h"

struct stack
spot_stack(const struct search *search, uint32_t site)
{
    struct stack stack;
    stack.frames = sites_frames(search->sites, site, &stack.count);
    return stack;
}

/* Whether two frames are one place of the sources. */
static bool
is_same(const struct site_place *a, const struct site_place *b)
{
    return a->line == b->line && a->column == b->column && strcmp(a->file, b->file) == 0;
}

bool
spot_find_parting(const struct stack *a, const struct stack *b, uint32_t *a_p, uint32_t *b_p)
{
    uint32_t i = a->count, j = b->count;
    while (i > 0 && j > 0 && is_same(&a->frames[i - 1], &b->frames[j - 1]))
        --i, --j;
    *a_p = i - 1;
    *b_p = j - 1;
    return i > 0 && j > 0 && strcmp(a->frames[i - 1].file, b->frames[j - 1].file) == 0 &&
           strcmp(a->frames[i - 1].function, b->frames[j - 1].function) == 0;
}

bool
spot_is_same_chain(const struct stack *a, const struct stack *b, uint32_t depth)
{
    return depth < a->count && depth < b->count && ALL_NUMBERS(i, 0, depth + 1, is_same(&a->frames[i], &b->frames[i]));
}

/* ---- lines ---- */

/* Adds a line in front of line `line`, once. */
static struct insertion *
add_line(struct insertions *to, const char *file, int line, const char *indent, const char *text)
{
    for (uint32_t i = 0; i < to->count; ++i)
        if (to->items[i].line == line && strcmp(to->items[i].text, text) == 0 && strcmp(to->items[i].file, file) == 0)
            return &to->items[i];
    uint32_t number = to->count;
    struct insertion *added = GROWN(to->items, to->count);
    *added = (struct insertion){.file = xstrdup(file), .line = line, .text = xstrdup(text), .number = number};
    snprintf(added->indent, sizeof(added->indent), "%s", indent);
    return added;
}

/* Adds a statement at a place within a line. */
static void
add_within(struct search *search, const struct source *source, size_t at, const char *text)
{
    int line = source_line(source, at);
    struct insertion *added = add_line(search->to, source->path, line, "", text);
    added->within = at + 1 - source_place(source, line, 1);
    for (char *end; (end = strchr(added->text, '\n')) != NULL;)
        *end = ' ';
}

/* Whether a statement goes elsewhere, so that none after it is reached. */
static bool
is_jump(const char *text)
{
    static const char *const words[] = {"return", "continue", "break", "goto", "throw"};
    return ANY(word, words, sizeof(words) / sizeof(words[0]),
               strncmp(text, *word, strlen(*word)) == 0 && !source_is_word(text[strlen(*word)]));
}

bool
spot_leaves(const struct source *source, uint32_t from, uint32_t around)
{
    const struct source_node *nodes = source->nodes, *first = &nodes[from], *last = &nodes[around];
    for (uint32_t i = from; i != last->parent; i = nodes[i].parent)
        if (nodes[i].is_loop)
            return false;
    return nodes[first->parent].is_block &&
           ANY(it, nodes, source->count,
               it->begin >= first->end && it->end <= last->end && is_jump(source->text + it->begin));
}

bool
spot_is_usable(const struct spot *spot)
{
    const struct source *source = spot->source;
    const struct source_node *node = &source->nodes[spot->node];
    return spot->behind == 0 || !ANY(it, source->nodes, source->count,
                                     it->parent == node->parent && it->begin >= node->begin &&
                                         it->end <= spot->behind && is_jump(source->text + it->begin));
}

bool
spot_has_line(const struct spot *spot)
{
    const struct source *source = spot->source;
    size_t at = spot->behind, line = at + strcspn(source->text + at, "\n");
    return spot->behind == 0 ? source_begins_line(source, spot->node)
                             : source_skip(source->text, at) >= line &&
                                   (!spot->needs_braces || source_begins_line(source, spot->node));
}

static int
spot_line(const struct spot *spot)
{
    return spot->behind == 0 ? source_line(spot->source, spot->source->nodes[spot->node].begin)
                             : source_line(spot->source, spot->behind) + 1;
}

void
spot_add_text(struct search *search, const struct spot *spot, const char *text)
{
    const char *path = spot->source->path;
    const struct source_node *node = &spot->source->nodes[spot->node];
    int line = source_line(spot->source, node->begin);
    const char *begin = spot->source->text + source_place(spot->source, line, 1);
    char indent[64];
    bool is_inside = spot->behind > 0 && spot->behind < node->end; /* of the function */
    snprintf(indent, sizeof(indent), "%.*s%s", (int)strspn(begin, " \t"), begin, is_inside ? "    " : "");
    const char *all = spot->source->text, *include = strstr(all, "#include"), *at = all, *next;
    while ((next = strstr(at, "#define _")) != NULL && next < include) /* behind the last macro of the system's */
        at = next + 1;
    add_line(search->to, spot->source->path, at > all ? source_line(spot->source, (size_t)(at - all)) + 1 : 1, "",
             strstr(text, "ddp_") != NULL || text[0] == '#' ? "#include <ddprun_lines.h>" : "#include <ddprun.h>");
    if (!spot_has_line(spot)) {
        OWNED char *within = xasprintf(spot->behind == 0 ? "%s " : spot->needs_braces ? " %s }" : " %s", text);
        if (spot->needs_braces)
            add_within(search, spot->source, node->begin, "{ ");
        add_within(search, spot->source, spot->behind == 0 ? node->begin : spot->behind, within);
        return;
    }
    if (spot->needs_braces)
        add_line(search->to, path, line, indent, "{");
    add_line(search->to, path, spot_line(spot), indent, text);
    if (spot->needs_braces)
        add_line(search->to, path, spot_line(spot), indent, "}");
}

/* ---- spots ---- */

uint32_t
spot_node(struct search *search, const struct site_place *frames, uint32_t depth, const struct source **source_p)
{
    const struct site_place *at = &frames[depth];
    const char *callee = depth > 0 ? at[-1].function : "";
    *source_p = sources_open(&search->sources, at->file);
    return *source_p != NULL ? source_statement_calling(*source_p, at->line, at->column, callee) : NODE_NONE;
}

size_t
spot_end_of_line(const struct source *source, uint32_t node)
{
    size_t end = source->nodes[node].end;
    for (uint32_t i = node + 1; i < source->count; ++i)
        if (source->nodes[i].parent == source->nodes[node].parent && source->nodes[i].begin >= end &&
            source_line(source, source->nodes[i].begin) == source_line(source, end))
            end = source->nodes[i].end;
    return end;
}

bool
spot_find_behind(struct search *search, const struct site_place *place, struct spot *spot)
{
    *spot = (struct spot){0};
    spot->node = spot_node(search, place, 0, &spot->source);
    if (spot->node == NODE_NONE || spot->source->nodes[spot->node].is_loop) /* in its header: each time round */
        return false;
    const struct source_node *nodes = spot->source->nodes, *node = &nodes[spot->node];
    uint32_t block = source_block(spot->source, spot->node);
    bool is_function = source_function(spot->source, spot->node) == spot->node && block != NODE_NONE;
    bool in_block = !is_function && node->parent != NODE_NONE && nodes[node->parent].is_block;
    spot->needs_braces = !is_function && !in_block;
    spot->behind = is_function ? nodes[block].begin + 1
                   : in_block  ? spot_end_of_line(spot->source, spot->node)
                               : node->end;
    if (in_block && !spot_is_usable(spot)) /* "cudaMalloc(&p, bytes); return p;" on one line */
        spot->behind = node->end;
    return node->parent != NODE_NONE && spot_is_usable(spot);
}

bool
spot_find_behind_both(struct search *search, const struct site_place *made, const struct site_place *set,
                      struct spot *spot, struct lifted *said)
{
    *spot = (struct spot){0};
    uint32_t from = spot_node(search, made, 0, &spot->source), to = spot_node(search, set, 0, &spot->source);
    if (from == NODE_NONE || to == NODE_NONE)
        return false;
    uint32_t ours = source_beside(spot->source, from, to);
    spot->node = source_beside(spot->source, to, from);
    if (spot->node == NODE_NONE || ours == spot->node || ours != from)
        return false;
    if (spot->source->nodes[ours].end > spot->source->nodes[spot->node].end)
        spot->node = ours;
    spot->behind = spot->source->nodes[spot->node].end;
    return spot_is_usable(spot) &&
           !lift_changes(spot->source, (struct span){spot->source->nodes[from].end, spot->behind}, said);
}
