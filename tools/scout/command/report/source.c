/* source.c - see lines.h. */
#include "tools/scout/command/report/lines.h"

#include "launcher/common/file_read.h"
#include "tools/common/grown.h"

#define CAPITALS "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"
enum { FILE_BYTES_AT_MOST = 16 << 20, DEPTH_AT_MOST = 200 };

/* ---- tokens ---- */

bool
source_is_word(char character)
{
    return isalnum((unsigned char)character) || character == '_';
}

static bool
begins_line(const char *text, size_t at)
{
    while (at > 0 && (text[at - 1] == ' ' || text[at - 1] == '\t'))
        --at;
    return at == 0 || text[at - 1] == '\n';
}

size_t
source_skip(const char *text, size_t at)
{
    for (;;) {
        if (isspace((unsigned char)text[at])) {
            ++at;
        } else if (text[at] == '/' && text[at + 1] == '/') {
            at += strcspn(text + at, "\n");
        } else if (text[at] == '/' && text[at + 1] == '*') {
            const char *end = strstr(text + at + 2, "*/");
            at = end != NULL ? (size_t)(end + 2 - text) : at + strlen(text + at);
        } else if (text[at] == '#' && begins_line(text, at)) {
            while (text[at] != '\0' && text[at] != '\n')
                at += text[at] == '\\' && text[at + 1] != '\0' ? 2 : 1;
        } else {
            return at;
        }
    }
}

size_t
source_token(const char *text, size_t at)
{
    if (text[at] == '"' || text[at] == '\'') {
        char quote = text[at++];
        while (text[at] != '\0' && text[at] != quote && text[at] != '\n')
            at += text[at] == '\\' && text[at + 1] != '\0' ? 2 : 1;
        return text[at] == quote ? at + 1 : at;
    }
    if (!source_is_word(text[at]))
        return at + (text[at] != '\0');
    bool is_number = isdigit((unsigned char)text[at]) != 0;
    while (source_is_word(text[at]) || (is_number && text[at] == '\'' && source_is_word(text[at + 1]))) /* 10'000 */
        ++at;
    return at;
}

size_t
source_close(const char *text, size_t at)
{
    size_t begin = at;
    int depth = 0;
    while (text[at] != '\0') {
        depth += strchr("([{", text[at]) != NULL;
        depth -= strchr(")]}", text[at]) != NULL;
        at = source_token(text, at);
        if (depth == 0)
            return at;
        at = source_skip(text, at);
    }
    return begin;
}

size_t
source_skip_angles(const char *text, size_t at, size_t end)
{
    int angles = 0;
    if (text[at] != '<')
        return at;
    do {
        angles += (text[at] == '<') - (text[at] == '>');
        at = source_skip(text, at + 1);
    } while (angles > 0 && at < end);
    return at;
}

/* ---- statements ---- */

static struct source_node *
add_node(struct source *source, size_t begin, const struct source_node *parent)
{
    struct source_node *node = *source->last = xcalloc(1, sizeof(*node));
    *node = (struct source_node){.source = source, .begin = begin, .end = begin, .parent = parent};
    source->last = &node->next;
    return node;
}

static bool
is_at(const char *text, size_t at, const char *word)
{
    size_t length = strlen(word);
    return strncmp(text + at, word, length) == 0 && !source_is_word(text[at + length]);
}

static bool
is_any(const char *text, size_t at, const char *const *words)
{
    for (; *words != NULL; ++words)
        if (is_at(text, at, *words))
            return true;
    return false;
}

static size_t parse_statement(struct source *source, size_t at, const struct source_node *parent, int depth);

/* From the { on. */
static size_t
parse_block(struct source *source, size_t at, const struct source_node *parent, int depth)
{
    const char *text = source->text;
    struct source_node *block = add_node(source, at, parent);
    block->is_block = true;
    at = source_skip(text, at + 1);
    while (text[at] != '\0' && text[at] != '}')
        at = source_skip(text, parse_statement(source, at, block, depth + 1));
    at += text[at] == '}';
    block->end = at;
    return at;
}

/* A declaration, an expression, a function, a class: up to its semicolon, or to the block that ends it. */
static size_t
parse_plain(struct source *source, size_t at, const struct source_node *node, int depth)
{
    const char *text = source->text;
    int brackets = 0;
    for (;;) {
        if (text[at] == '\0' || (text[at] == '}' && brackets == 0))
            return at;
        if (text[at] == ';' && brackets == 0)
            return at + 1;
        if (text[at] == '{') {
            at = parse_block(source, at, node, depth);
            size_t next = source_skip(text, at);
            if (brackets == 0 && (text[next] == '\0' || strchr(";,)]({.", text[next]) == NULL))
                return at;
        } else {
            brackets += text[at] == '(' || text[at] == '[';
            brackets -= (text[at] == ')' || text[at] == ']') && brackets > 0;
            at = source_token(text, at);
        }
        at = source_skip(text, at);
    }
}

/* Behind "case 3:", "public:", "default:". */
static size_t
parse_label(const char *text, size_t at)
{
    while (text[at] != '\0' && text[at] != ';' && text[at] != '}') {
        if (text[at] == ':' && text[at + 1] != ':')
            return at + 1;
        at = source_skip(text, source_token(text, at) + (text[at] == ':'));
    }
    return at;
}

/* Behind "if (...)", "for (...)". */
static size_t
parse_head(const char *text, size_t at)
{
    at = source_skip(text, source_token(text, at));
    if (is_at(text, at, "constexpr"))
        at = source_skip(text, source_token(text, at));
    return source_skip(text, text[at] == '(' ? source_close(text, at) : at);
}

/* Behind "CREATE(w)" without a semicolon, which a macro's text has: the next line is another statement. `at`: that is
 * none. */
static size_t
parse_macro(const char *text, size_t at)
{
    size_t end = source_token(text, at), close = source_close(text, end), next = source_skip(text, close);
    bool is_macro = text[end] == '(' && close > end && strspn(text + at, CAPITALS) == end - at;
    return is_macro && source_is_word(text[next]) && begins_line(text, next) ? close : at;
}

static size_t
parse_statement(struct source *source, size_t at, const struct source_node *parent, int depth)
{
    static const char *const heads[] = {"if", "for", "while", "switch", "catch", NULL},
                             *const loops[] = {"for", "while", "do", NULL}, *const bare[] = {"else", "do", "try", NULL},
                             *const labels[] = {"case", "default", "public", "private", "protected", NULL};
    const char *text = source->text;
    if (depth >= DEPTH_AT_MOST)
        return at + strlen(text + at);
    if (text[at] == '{')
        return parse_block(source, at, parent, depth);
    struct source_node *node = add_node(source, at, parent);
    node->is_loop = is_any(text, at, loops);
    if (is_any(text, at, heads)) {
        bool is_if = is_at(text, at, "if");
        at = parse_statement(source, parse_head(text, at), node, depth + 1);
        size_t next = source_skip(text, at);
        if (is_if && is_at(text, next, "else"))
            at = parse_statement(source, source_skip(text, next + 4), node, depth + 1);
    } else if (is_any(text, at, bare)) {
        bool is_do = is_at(text, at, "do");
        at = parse_statement(source, source_skip(text, source_token(text, at)), node, depth + 1);
        if (is_do)
            at = parse_plain(source, source_skip(text, at), node, depth);
    } else if (is_any(text, at, labels)) {
        at = parse_label(text, at);
    } else {
        size_t end = parse_macro(text, at);
        at = end > at ? end : parse_plain(source, at, node, depth);
    }
    node->end = at;
    return at;
}

/* ---- files ---- */

const struct source *
sources_open(struct sources *sources, const char *path)
{
    for (uint32_t i = 0; i < sources->count; ++i)
        if (strcmp(sources->files[i]->path, path) == 0)
            return sources->files[i]->text != NULL ? sources->files[i] : NULL;
    struct source *source = xcalloc(1, sizeof(*source));
    source->path = xstrdup(path);
    source->last = &source->first;
    source->text = file_read(path, FILE_BYTES_AT_MOST, NULL, NULL);
    *GROWN(sources->files, sources->count) = source;
    if (source->text == NULL)
        return NULL;
    size_t at = source_skip(source->text, 0);
    while (source->text[at] != '\0')
        at = source_skip(source->text, source->text[at] == '}' ? at + 1 : parse_statement(source, at, NULL, 0));
    return source;
}

void
sources_close(struct sources *sources)
{
    for (uint32_t i = 0; i < sources->count; ++i) {
        for (struct source_node *node = sources->files[i]->first, *next; node != NULL; node = next) {
            next = node->next;
            free(node);
        }
        free(sources->files[i]->path);
        free(sources->files[i]->text);
        free(sources->files[i]);
    }
    free(sources->files);
    *sources = (struct sources){0};
}

/* ---- where a line may stand ---- */

int
source_line(const struct source *source, size_t at)
{
    int line = 1;
    for (size_t i = 0; i < at && source->text[i] != '\0'; ++i)
        line += source->text[i] == '\n';
    return line;
}

/* How many columns a token has where macros are expanded, as far as the file defines them: "#define NAME text". */
static size_t
width_of(const char *text, size_t at, int depth)
{
    enum { DEEPEST = 8 };
    size_t end = source_token(text, at), width = 0;
    OWNED char *define = xasprintf("#define %.*s ", (int)(end - at), text + at);
    const char *found = source_is_word(text[at]) && depth < DEEPEST ? strstr(text, define) : NULL;
    size_t next = found != NULL ? (size_t)(found - text) + strlen(define) : 0, stop = next + strcspn(text + next, "\n");
    if (found == NULL)
        return end - at;
    for (next += strspn(text + next, " \t"); next < stop; next = source_skip(text, source_token(text, next))) {
        size_t last = source_token(text, next);
        width += width_of(text, next, depth + 1) + (last < stop && isspace((unsigned char)text[last]) != 0);
    }
    return width;
}

/* Compilers of CUDA count columns where macros are expanded, and several blanks inside a line are one. */
size_t
source_place(const struct source *source, int line, int column)
{
    const char *text = source->text;
    size_t begin = 0, shown = 1;
    for (int i = 1; i < line && text[begin] != '\0'; ++i) {
        begin += strcspn(text + begin, "\n");
        begin += text[begin] == '\n';
    }
    size_t at = begin + strspn(text + begin, " \t");
    shown += at - begin;
    if (column <= 0 || (size_t)column < shown)
        return begin + (column > 0 ? (size_t)column - 1 : 0);
    while (text[at] != '\0' && text[at] != '\n') {
        size_t end = source_token(text, at), blanks = strspn(text + end, " \t"), width = width_of(text, at, 0);
        if ((size_t)column < shown + width)
            return at + ((size_t)column - shown < end - at ? (size_t)column - shown : 0);
        shown += width + (blanks > 0);
        at = end + blanks;
    }
    return at;
}

const struct source_node *
source_statement_at(const struct source *source, size_t at)
{
    const struct source_node *found = NULL;
    FOR_EACH_NODE(node, source->first)
        if (!node->is_block && node->begin <= at && at < node->end)
            found = node;
    return found;
}

/* Whether a call there may be a macro's, in capitals or around a call of CUDA. Compilers count columns where macros are
 * expanded, so what comes after it on a line has another column. */
static bool
calls_macro(const char *text, size_t at, size_t end)
{
    for (; at < end; at = source_skip(text, source_token(text, at))) {
        size_t word = source_token(text, at), inner = source_skip(text, word + 1);
        bool is_lower = ANY_NUMBER(i, at, word, islower((unsigned char)text[i]));
        if (source_is_word(text[at]) && text[word] == '(' && (!is_lower || strncmp(text + inner, "cuda", 4) == 0))
            return true;
    }
    return false;
}

const struct source_node *
source_statement(const struct source *source, int line, int column)
{
    const struct source_node *found = NULL;
    bool is_one = true;
    size_t begin = source_place(source, line, 1), place = source_place(source, line, column);
    size_t end = begin + strcspn(source->text + begin, "\n");
    place += strspn(source->text + place, " \t"); /* a macro may stand one column in front of its name */
    const char *launch = memmem(source->text + begin, end - begin, "<<<", 3);
    const struct source_node *first =
        launch != NULL ? source_statement_at(source, (size_t)(launch - source->text)) : NULL;
    if (first != NULL && first->begin <= place) /* compilers rewrite it, and columns move */
        place = (size_t)(launch - source->text);
    FOR_EACH_NODE(node, source->first) {
        if (node->is_block || node->begin >= end || node->end <= begin)
            continue;
        is_one = is_one && (found == NULL || node->begin < found->end);
        found = node;
    }
    const struct source_node *around = column > 0 && place < end ? source_statement_at(source, place) : NULL;
    if (around != NULL && around->begin < begin && found != around && found->begin < around->end)
        around = NULL; /* between two statements of a line */
    if (!is_one && around != NULL && calls_macro(source->text, begin, around->begin))
        around = NULL;
    return is_one && around == NULL ? found : around;
}

const struct source_node *
source_statement_calling(const struct source *source, int line, int column, const char *callee)
{
    const char *text = source->text;
    const struct source_node *found = source_statement(source, line, column), *only = NULL;
    size_t at = source_place(source, line, 1), end = at + strcspn(text + at, "\n"), length = strlen(callee);
    bool launches = found != NULL && memmem(text + found->begin, found->end - found->begin, "<<<", 3) != NULL;
    bool is_one = found == NULL || launches;
    for (size_t next; is_one && length > 0 && at < end; at = source_skip(text, next)) {
        next = source_token(text, at);
        if (strncmp(text + at, callee, length) != 0 || (launches && next > at + length))
            continue;
        is_one = only == NULL;
        only = is_one ? source_statement_at(source, at) : NULL;
    }
    return only != NULL ? only : found;
}

static bool
is_within(const struct source_node *node, const struct source_node *around)
{
    while (node != NULL && node != around)
        node = node->parent;
    return node == around;
}

const struct source_node *
source_beside(const struct source_node *inner, const struct source_node *other)
{
    while (inner != NULL && (inner->parent == NULL || !inner->parent->is_block || !is_within(other, inner->parent)))
        inner = inner->parent;
    return inner;
}

const struct source_node *
source_block(const struct source_node *node)
{
    const struct source_node *block = NULL;
    FOR_EACH_INSIDE(it, node)
        if (it->parent == node && it->is_block)
            block = it;
    return block;
}

const struct source_node *
source_function(const struct source_node *node)
{
    static const char *const classes[] = {"class", "struct", "union", "namespace", "extern", NULL};
    const struct source_node *outermost = NULL;
    for (; node != NULL; node = node->parent) {
        const char *text = node->source->text;
        const struct source_node *block = source_block(node);
        if (node->is_block || block == NULL)
            continue;
        size_t word = node->begin;
        if (is_at(text, word, "template"))
            word = source_skip_angles(text, source_skip(text, word + strlen("template")), node->end);
        if (memchr(text + node->begin, '(', block->begin - node->begin) != NULL && !is_any(text, word, classes))
            outermost = node;
    }
    return outermost;
}

bool
source_begins_line(const struct source_node *node)
{
    return begins_line(node->source->text, node->begin);
}
