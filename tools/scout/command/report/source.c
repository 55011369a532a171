/* source.c - see lines.h. */
#include "tools/scout/command/report/lines.h"

#include "launcher/common/file_read.h"
#include "softgpu/text/declarations.h"
#include "tools/common/grown.h"

enum { FILE_BYTES_AT_MOST = 16 << 20 };

/* ---- files ---- */

/* Where a statement ends in the text: behind its last token. */
static size_t
end_of(const struct code *code, struct token_range tokens)
{
    return tokens.end > tokens.first ? token_end(code, tokens.end - 1) : code->tokens[tokens.first].begin;
}

/* The statements as nodes with places in the text, between which lines can be put. */
static void
make_nodes(struct source *source)
{
    const struct statements *statements = &source->statements;
    struct source_node *nodes = xcalloc(statements->count + 1, sizeof(*nodes));
    for (uint32_t i = 0; i < statements->count; ++i) {
        const struct statement *statement = &statements->list[i];
        nodes[i] = (struct source_node){
            .source = source,
            .parent = statement->parent != STATEMENT_NONE ? &nodes[statement->parent] : NULL,
            .next = i + 1 < statements->count ? &nodes[i + 1] : NULL,
            .begin = source->code.tokens[statement->tokens.first].begin,
            .end = end_of(&source->code, statement->tokens),
            .tokens = statement->tokens,
            .is_block = statement->is_block,
            .is_loop = statement->is_loop,
        };
    }
    source->nodes = nodes;
    source->first = statements->count > 0 ? nodes : NULL;
}

const struct source *
sources_open(struct sources *sources, const char *path)
{
    for (uint32_t i = 0; i < sources->count; ++i)
        if (strcmp(sources->files[i]->path, path) == 0)
            return sources->files[i]->text != NULL ? sources->files[i] : NULL;
    struct source *source = xcalloc(1, sizeof(*source));
    source->path = xstrdup(path);
    source->text = file_read(path, FILE_BYTES_AT_MOST, NULL, NULL);
    *GROWN(sources->files, sources->count) = source;
    if (source->text == NULL || !code_read(source->text, strlen(source->text), &source->code))
        return NULL;
    statements_read(&source->code, &source->statements);
    make_nodes(source);
    return source;
}

void
sources_close(struct sources *sources)
{
    for (uint32_t i = 0; i < sources->count; ++i) {
        statements_free(&sources->files[i]->statements);
        code_free(&sources->files[i]->code);
        free(sources->files[i]->nodes);
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

static size_t
length_of_line(const char *text, size_t begin)
{
    return strcspn(text + begin, "\n");
}

/* The byte at which a line (from 1) of the text begins; the text's end where it has fewer. */
static size_t
begin_of_line(const char *text, int line)
{
    size_t begin = 0;
    for (int i = 1; i < line && text[begin] != '\0'; ++i) {
        begin += length_of_line(text, begin);
        begin += text[begin] == '\n';
    }
    return begin;
}

/* What "#define NAME text" of a file has for a word. False: the file does not define it. */
static bool
find_macro(const struct code *file, const char *name, size_t length, struct span *body)
{
    static const char define[] = "#define ";
    FOR_EACH(it, file->directives, file->directive_count) {
        const char *text = file->text + it->begin;
        const size_t begin = strlen(define) + length;
        const bool has_name = it->end - it->begin > begin && strncmp(text, define, strlen(define)) == 0 &&
                              strncmp(text + strlen(define), name, length) == 0;
        if (!has_name || text[begin] != ' ')
            continue;
        *body = (struct span){it->begin + begin + 1, it->begin + length_of_line(file->text, it->begin)};
        return true;
    }
    return false;
}

static bool
touches_next(const struct code *code, uint32_t i)
{
    return i + 1 == code->count || code->tokens[i + 1].begin == token_end(code, i);
}

/* How many columns a token has where macros are expanded, as far as the file defines them. */
static size_t
width_of(const struct code *file, const struct code *code, uint32_t i, int depth)
{
    enum { DEEPEST = 8 };
    const char *name = code->text + code->tokens[i].begin;
    size_t length = code->tokens[i].length, width = 0;
    struct span body;
    if (!token_is_word(code, i) || depth >= DEEPEST || !find_macro(file, name, length, &body))
        return length;
    struct code macro;
    if (!code_read(file->text + body.begin, body.end - body.begin, &macro))
        return length;
    for (uint32_t k = 0; k < macro.count; ++k)
        width += width_of(file, &macro, k, depth + 1) + !touches_next(&macro, k);
    code_free(&macro);
    return width;
}

/* Compilers of CUDA count columns where macros are expanded, and what stands between two tokens of a line is one blank.
 */
size_t
source_place(const struct source *source, int line, int column)
{
    const struct code *code = &source->code;
    size_t begin = begin_of_line(source->text, line), end = begin + length_of_line(source->text, begin);
    size_t at = begin + strspn(source->text + begin, " \t"), shown = 1 + at - begin;
    if (column <= 1)
        return begin;
    if ((size_t)column < shown)
        return begin + (size_t)column - 1;
    uint32_t i = code_token_at(code, at);
    for (; i < code->count && code->tokens[i].begin < end; ++i) {
        const struct token *token = &code->tokens[i];
        size_t width = width_of(code, code, i, 0), within = (size_t)column > shown ? (size_t)column - shown : 0;
        if ((size_t)column < shown + width)
            return token->begin + (within < token->length ? within : 0);
        shown += width + !touches_next(code, i);
    }
    return end;
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

/* The tokens that begin in a line. */
static struct token_range
tokens_of_line(const struct source *source, int line)
{
    const struct code *code = &source->code;
    size_t begin = begin_of_line(source->text, line), end = begin + length_of_line(source->text, begin);
    struct token_range tokens = {code_token_at(code, begin), 0};
    while (tokens.first < code->count && code->tokens[tokens.first].begin < begin)
        ++tokens.first;
    tokens.end = tokens.first;
    while (tokens.end < code->count && code->tokens[tokens.end].begin < end)
        ++tokens.end;
    return tokens;
}

static bool
has_lower_case(const struct code *code, uint32_t i)
{
    const struct token *token = &code->tokens[i];
    return ANY_NUMBER(k, token->begin, token_end(code, i), islower((unsigned char)code->text[k]));
}

/* Whether a call among tokens may be a macro's, in capitals or around a call of CUDA. Compilers count columns where
 * macros are expanded, so what comes after it on a line has another column. */
static bool
calls_macro(const struct code *code, struct token_range tokens)
{
    for (uint32_t i = tokens.first; i < tokens.end; ++i) {
        const bool is_call = token_is_word(code, i) && touches_next(code, i) && token_is(code, i + 1, "(");
        if (is_call && (!has_lower_case(code, i) || token_begins(code, i + 2, "cuda")))
            return true;
    }
    return false;
}

static const struct source_node *
node_of(const struct source *source, uint32_t statement)
{
    return statement != STATEMENT_NONE ? &source->nodes[statement] : NULL;
}

const struct source_node *
source_statement_of(const struct source *source, uint32_t token)
{
    return node_of(source, statement_at(&source->statements, token));
}

/* The first launch among tokens; their end: there is none. */
static uint32_t
find_launch(const struct code *code, struct token_range tokens)
{
    uint32_t i = tokens.first;
    while (i < tokens.end && !token_run(code, i, '<', 3))
        ++i;
    return i;
}

/* The last statement that has a part of a line. *is_one_p: all others are around it. */
static const struct source_node *
last_of_line(const struct source *source, size_t begin, size_t end, bool *is_one_p)
{
    const struct source_node *found = NULL;
    *is_one_p = true;
    FOR_EACH_NODE(node, source->first) {
        if (node->is_block || node->begin >= end || node->end <= begin)
            continue;
        *is_one_p = *is_one_p && (found == NULL || node->begin < found->end);
        found = node;
    }
    return found;
}

const struct source_node *
source_statement(const struct source *source, int line, int column)
{
    const struct code *code = &source->code;
    size_t begin = source_place(source, line, 1), place = source_place(source, line, column);
    size_t end = begin + length_of_line(source->text, begin);
    place += strspn(source->text + place, " \t"); /* a macro may stand one column in front of its name */
    const struct token_range tokens = tokens_of_line(source, line);
    const uint32_t launch = find_launch(code, tokens);
    const struct source_node *first = launch < tokens.end ? source_statement_of(source, launch) : NULL;
    if (first != NULL && first->begin <= place) /* compilers rewrite it, and columns move */
        place = code->tokens[launch].begin;

    bool is_one;
    const struct source_node *found = last_of_line(source, begin, end, &is_one);
    const struct source_node *around = column > 0 && place < end ? source_statement_at(source, place) : NULL;
    if (around != NULL && around->begin < begin && found != around && found->begin < around->end)
        around = NULL; /* between two statements of a line */
    if (around == NULL)
        return is_one ? found : NULL;
    if (!is_one && calls_macro(code, (struct token_range){tokens.first, around->tokens.first}))
        return NULL;
    return around;
}

const struct source_node *
source_statement_calling(const struct source *source, int line, int column, const char *callee)
{
    const struct code *code = &source->code;
    const struct source_node *found = source_statement(source, line, column), *only = NULL;
    const struct token_range tokens = tokens_of_line(source, line);
    bool launches = found != NULL && find_launch(code, found->tokens) < found->tokens.end;
    if ((found != NULL && !launches) || callee[0] == '\0')
        return found;
    for (uint32_t i = tokens.first; i < tokens.end; ++i) {
        const bool goes_on = code->tokens[i].length > strlen(callee);
        if (strncmp(code->text + code->tokens[i].begin, callee, strlen(callee)) != 0 || (launches && goes_on))
            continue;
        if (only != NULL)
            return found;
        only = source_statement_of(source, i);
    }
    return only != NULL ? only : found;
}

/* Whether the node is `around`, or lies in it. */
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

static uint32_t
number_of(const struct source_node *node)
{
    return (uint32_t)(node - node->source->nodes);
}

struct token_range
source_own(const struct source_node *node)
{
    return statement_own(&node->source->statements, number_of(node));
}

const struct source_node *
source_block(const struct source_node *node)
{
    return node_of(node->source, statement_block(&node->source->statements, number_of(node)));
}

const struct source_node *
source_function(const struct source_node *node)
{
    return node_of(node->source, statement_function(&node->source->statements, number_of(node)));
}

bool
source_declares(const struct source_node *node, const char *name, size_t length)
{
    const struct code *code = &node->source->code;
    struct token_range own = source_own(node);
    uint32_t open = own.first;
    while (node->is_loop && open < own.end && !token_is(code, open, "("))
        ++open;
    if (node->is_loop && open < own.end)
        own.first = open + 1;
    return token_declares(code, own, name, length);
}

bool
source_begins_line(const struct source_node *node)
{
    const char *text = node->source->text;
    size_t at = node->begin;
    while (at > 0 && (text[at - 1] == ' ' || text[at - 1] == '\t'))
        --at;
    return at == 0 || text[at - 1] == '\n';
}
