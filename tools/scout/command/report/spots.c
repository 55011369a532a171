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

struct stack
spot_stack_of(const struct search *search, uint32_t op)
{
    return spot_stack(search, search->ops[op].site);
}

/* Whether two frames are one place of the sources. */
static bool
is_same(const struct site_place *a, const struct site_place *b)
{
    return a->line == b->line && a->column == b->column && strcmp(a->file, b->file) == 0;
}

bool
spot_find_parting(struct stack a, struct stack b, uint32_t *a_p, uint32_t *b_p)
{
    uint32_t i = a.count, j = b.count;
    while (i > 0 && j > 0 && is_same(&a.frames[i - 1], &b.frames[j - 1]))
        --i, --j;
    *a_p = i - 1;
    *b_p = j - 1;
    return i > 0 && j > 0 && strcmp(a.frames[i - 1].file, b.frames[j - 1].file) == 0 &&
           strcmp(a.frames[i - 1].function, b.frames[j - 1].function) == 0;
}

bool
spot_is_same_chain(struct stack a, struct stack b, uint32_t depth)
{
    return depth < a.count && depth < b.count && ALL_NUMBERS(i, 0, depth + 1, is_same(&a.frames[i], &b.frames[i]));
}

uint32_t
spot_fill_stack(struct search *search, uint32_t op, struct site_place frames[SITE_FRAMES_AT_MOST])
{
    struct stack seen = spot_stack_of(search, op);
    uint32_t count = 0;
    for (uint32_t i = 0; i < seen.count && count + 1 < SITE_FRAMES_AT_MOST; ++i) {
        frames[count++] = seen.frames[i];
        count += i + 1 < seen.count &&
                 lift_find_tail(&search->sources, seen.frames[i].function, &seen.frames[i + 1], &frames[count]);
    }
    return count;
}

/* ---- lines ---- */

/* Adds text to a line, once: in front of it, or, from 1, in this place of it. */
static struct insertion *
add_text(struct insertions *to, const char *file, int line, size_t within, const char *text)
{
    for (uint32_t i = 0; i < to->count; ++i) {
        struct insertion *it = &to->items[i];
        if (it->line == line && it->within == within && strcmp(it->text, text) == 0 && strcmp(it->file, file) == 0)
            return it;
    }
    uint32_t number = to->count;
    struct insertion *added = GROWN(to->items, to->count);
    *added = (struct insertion){
        .file = xstrdup(file), .line = line, .within = within, .text = xstrdup(text), .number = number};
    return added;
}

/* Adds a line in front of line `line`, once. */
static void
add_line(struct insertions *to, const char *file, int line, const char *indent, const char *text)
{
    struct insertion *added = add_text(to, file, line, 0, text);
    snprintf(added->indent, sizeof(added->indent), "%s", indent);
}

/* Adds a statement at a place within a line. */
static void
add_within(struct search *search, const struct source *source, size_t at, const char *text)
{
    int line = source_line(source, at);
    OWNED char *of_line = xstrdup(text);
    for (char *at = of_line; *at != '\0'; ++at)
        if (*at == '\n')
            *at = ' ';
    (void)add_text(search->to, source->path, line, at + 1 - source_place(source, line, 1), of_line);
}

/* Whether a statement goes elsewhere, so that none after it is reached. */
static bool
is_jump(const struct source_node *node)
{
    static const char *const words[] = {"return", "continue", "break", "goto", "throw", NULL};
    return token_is_one_of(&node->source->code, node->tokens.first, words);
}

/* Whether a loop inside `around`, or `around`, repeats a statement. */
static bool
is_repeated_within(const struct source_node *node, const struct source_node *around)
{
    for (const struct source_node *it = node; it != around->parent; it = it->parent)
        if (it->is_loop)
            return true;
    return false;
}

bool
spot_leaves(const struct source_node *from, const struct source_node *around)
{
    if (!from->parent->is_block || is_repeated_within(from, around))
        return false;
    FOR_EACH_INSIDE(it, around)
        if (it->begin >= from->end && it->end <= around->end && is_jump(it))
            return true;
    return false;
}

bool
spot_is_usable(const struct spot *spot)
{
    const struct source_node *node = spot->node;
    FOR_EACH_NODE(it, spot->behind > 0 ? node : NULL)
        if (it->parent == node->parent && it->end <= spot->behind && is_jump(it))
            return false;
    return true;
}

/* The last comment that begins in a part of a text; NULL: none does. */
static const char *
find_last_comment(const char *from, const char *end)
{
    const char *last = NULL, *at = from;
    while ((at = memmem(at, (size_t)(end - at), "/*", 2)) != NULL) {
        last = at;
        at += 2;
    }
    return last;
}

bool
spot_has_line(const struct spot *spot)
{
    const struct code *code = &spot->node->source->code;
    const char *from = code->text + spot->behind, *line = from + strcspn(from, "\n");
    if (spot->behind == 0)
        return source_begins_line(spot->node);
    const char *comment = find_last_comment(from, line);
    if (comment != NULL && memmem(comment, (size_t)(line - comment), "*/", 2) == NULL) /* the next line is inside it */
        return false;
    if (spot->needs_braces && !source_begins_line(spot->node))
        return false;
    return code->text + code->tokens[code_token_at(code, spot->behind)].begin >= line; /* the line ends after it */
}

static int
spot_line(const struct spot *spot)
{
    return spot->behind == 0 ? source_line(spot->node->source, spot->node->begin)
                             : source_line(spot->node->source, spot->behind) + 1;
}

/* The last macro of the system's before the first #include; NULL: there is none. */
static const char *
find_system_macro(const char *all, const char *include)
{
    const char *last = NULL, *at = all;
    while ((at = strstr(at, "#define _")) != NULL) {
        if (at >= include)
            break;
        last = at++;
    }
    return last;
}

/* The line of the #include: after the last macro of the system's, and after the end of the #if in which that is. */
static int
include_line(const struct source *source)
{
    const char *all = source->text, *include = strstr(all, "#include"), *at = all;
    const char *macro = include != NULL ? find_system_macro(all, include) : NULL;
    int depth = 0;
    if (macro == NULL)
        return 1;
    for (; at < include && (at <= macro || depth > 0); ++at) {
        depth += strncmp(at, "#if", 3) == 0;
        depth -= strncmp(at, "#endif", 6) == 0;
    }
    const char *last = depth > 0 ? macro : at - 1;
    return source_line(source, (size_t)(last - all)) + 1;
}

/* The header that text needs. */
static void
add_include(struct search *search, const struct source *source, const char *text)
{
    bool is_of_lines = strstr(text, "ddp_") != NULL || text[0] == '#';
    add_line(search->to, source->path, include_line(source), "",
             is_of_lines ? "#include <ddprun_lines.h>" : "#include <ddprun.h>");
}

void
spot_add_text(struct search *search, const struct spot *spot, const char *text)
{
    const struct source_node *node = spot->node;
    const struct source *source = node->source;
    int line = source_line(source, node->begin);
    const char *begin = source->text + source_place(source, line, 1);
    char indent[64];
    bool is_inside = spot->behind > 0 && spot->behind < node->end; /* of the function */
    snprintf(indent, sizeof(indent), "%.*s%s", (int)strspn(begin, " \t"), begin, is_inside ? "    " : "");
    add_include(search, source, text);
    if (!spot_has_line(spot)) {
        OWNED char *within = xasprintf(spot->behind == 0 ? "%s " : " %s", text);
        if (spot->needs_braces)
            add_within(search, source, node->begin, "{ ");
        add_within(search, source, spot->behind == 0 ? node->begin : spot->behind, within);
        if (spot->needs_braces)
            add_within(search, source, spot->behind, " }");
        return;
    }
    if (spot->needs_braces)
        add_line(search->to, source->path, line, indent, "{");
    add_line(search->to, source->path, spot_line(spot), indent, text);
    if (spot->needs_braces)
        add_line(search->to, source->path, spot_line(spot), indent, "}");
}

void
spot_add_step(struct search *search, const struct spot *spot, uint32_t number)
{
    const char *word = search->finding->groups[number].fused ? "DDP_STEP_PARAMETERS" : "DDP_STEP";
    char text[64];
    if (search->to->groups == 1)
        snprintf(text, sizeof(text), "%s(0);", word);
    else
        snprintf(text, sizeof(text), "%s_GROUP(%" PRIu32 ", 0);", word, search->to->group_of[number]);
    spot_add_text(search, spot, text);
}

void
spot_add_within(struct search *search, const struct spot *spot, const char *text)
{
    const struct source *source = spot->node->source;
    add_include(search, source, text);
    add_within(search, source, spot->node->begin, text);
}

void
spot_wrap(struct search *search, const struct source *source, struct span part, const char *before, const char *after)
{
    add_include(search, source, after);
    add_within(search, source, part.begin, before);
    add_within(search, source, part.end, after);
}

/* ---- spots ---- */

const struct source_node *
spot_node(struct search *search, const struct site_place *frames, uint32_t depth)
{
    const struct site_place *at = &frames[depth];
    const struct source *source = sources_open(&search->sources, at->file);
    const char *callee = depth > 0 ? at[-1].function : "";
    return source != NULL ? source_statement_calling(source, at->line, at->column, callee) : NULL;
}

size_t
spot_end_of_line(const struct source_node *node)
{
    size_t end = node->end;
    FOR_EACH_NODE(it, node->next)
        if (it->parent == node->parent && it->begin >= end &&
            source_line(node->source, it->begin) == source_line(node->source, end))
            end = it->end;
    return end;
}

bool
spot_find_behind(struct search *search, const struct site_place *place, struct spot *spot)
{
    const struct source_node *node = spot_node(search, place, 0);
    *spot = (struct spot){.node = node};
    if (node == NULL || node->is_loop) /* in its header: each time round */
        return false;
    const struct source_node *block = source_block(node);
    bool is_function = source_function(node) == node && block != NULL;
    bool in_block = !is_function && node->parent != NULL && node->parent->is_block;
    spot->needs_braces = !is_function && !in_block;
    spot->behind = in_block ? spot_end_of_line(node) : node->end;
    if (is_function)
        spot->behind = block->begin + 1;
    if (in_block && !spot_is_usable(spot)) /* "cudaMalloc(&p, bytes); return p;" on one line */
        spot->behind = node->end;
    return node->parent != NULL && spot_is_usable(spot);
}

/* The statement of a function's body that a node is in; NULL: it is in none. */
static const struct source_node *
statement_of_body(const struct source_node *function, const struct source_node *node)
{
    const struct source_node *body = source_function(function) == function ? source_block(function) : NULL;
    while (body != NULL && node != NULL && node->parent != body)
        node = node->parent;
    return body != NULL ? node : NULL;
}

bool
spot_find_behind_both(struct search *search, const struct site_place *made, const struct site_place *set,
                      struct spot *spot, struct lifted *said)
{
    const struct source_node *from = spot_node(search, made, 0), *to = spot_node(search, set, 0);
    *spot = (struct spot){0};
    if (from == NULL || to == NULL)
        return false;
    const struct source_node *ours = source_beside(from, to), *theirs = source_beside(to, from);
    const bool in_header = ours == theirs && ours == from; /* a constructor makes its members before its body */
    if (in_header)
        theirs = statement_of_body(from, to);
    if (theirs == NULL || ours == theirs || ours != from)
        return false;
    const size_t begin = in_header ? source_block(from)->begin : from->end;
    spot->node = in_header || theirs->end > ours->end ? theirs : ours;
    spot->behind = spot->node->end;
    return spot_is_usable(spot) && !lift_changes(from->source, (struct span){begin, spot->behind}, said);
}

void
notes_add(struct search *search, char *text)
{
    *GROWN(search->to->notes, search->to->note_count) = text;
}
