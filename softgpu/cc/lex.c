/*
 * lex.c - see lex.h.
 */
#include "lex.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the lexer stands. */
struct reader {
    const char *at, *end;
    struct lexed *out;
    uint32_t capacity;
    uint32_t file, line;
    bool is_system;
    const struct lex_paths *paths;
};

static bool
is_word_start(char c)
{
    return isalpha((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

static bool
is_word(char c)
{
    return is_word_start(c) || isdigit((unsigned char)c);
}

static bool
begins_with_one_of(const char *path, const struct list *prefixes)
{
    for (size_t i = 0; i < prefixes->count; ++i) {
        if (strncmp(path, prefixes->items[i], strlen(prefixes->items[i])) == 0)
            return true;
    }
    return false;
}

static uint32_t
file_index(struct reader *reader, const char *path, bool is_flagged)
{
    struct lexed *out = reader->out;
    for (size_t i = out->files.count; i-- > 0;) {
        if (strcmp(out->files.items[i], path) == 0)
            return (uint32_t)i;
    }
    const size_t index = out->files.count;
    list_add(&out->files, path);
    out->file_is_system = memory_grow(out->file_is_system, (index + 1) * sizeof(*out->file_is_system));
    out->file_is_system[index] = begins_with_one_of(path, &reader->paths->system) ||
                                 (is_flagged && !begins_with_one_of(path, &reader->paths->not_system));
    return (uint32_t)index;
}

/* # 12 "path" 1 3: from the next line on, line 12 of path; flag 3 says that it is a system header. */
static void
read_line_marker(struct reader *reader, const char *line, const char *line_end)
{
    const char *c = line + 1;
    while (c < line_end && *c == ' ')
        ++c;
    if (c == line_end || !isdigit((unsigned char)*c))
        return;
    reader->line = (uint32_t)strtoul(c, NULL, 10);
    const char *quote = memchr(c, '"', (size_t)(line_end - c));
    if (quote == NULL)
        return;

    struct text path = {0};
    text_append(&path, "", 0);
    for (c = quote + 1; c < line_end && *c != '"'; ++c) {
        if (*c == '\\' && c + 1 < line_end)
            ++c;
        text_append(&path, c, 1);
    }
    bool is_flagged = false;
    for (; c < line_end; ++c)
        is_flagged = is_flagged || (*c == '3' && c[-1] == ' ');
    reader->file = file_index(reader, path.data, is_flagged);
    reader->is_system = reader->out->file_is_system[reader->file];
    text_free(&path);
}

/* At the '#' of a directive: passes the line and those it continues on. */
static void
pass_directive(struct reader *reader)
{
    const char *line = reader->at;
    while (reader->at < reader->end && *reader->at != '\n') {
        if (*reader->at == '\\' && reader->at + 1 < reader->end && reader->at[1] == '\n') {
            ++reader->at;
            ++reader->line;
        }
        ++reader->at;
    }
    const char *line_end = reader->at;
    if (reader->at < reader->end)
        ++reader->at;
    ++reader->line;
    if (line_end - line > 1 && (line[1] == ' ' || isdigit((unsigned char)line[1])))
        read_line_marker(reader, line, line_end);
}

static void
add_token(struct reader *reader, enum token_kind kind, const char *begin)
{
    struct lexed *out = reader->out;
    if (out->count + 1 >= reader->capacity) {
        reader->capacity = 2 * (reader->capacity + 1024);
        out->tokens = memory_grow(out->tokens, reader->capacity * sizeof(*out->tokens));
    }
    out->tokens[out->count++] = (struct token){
        .begin = (uint32_t)(begin - out->text),
        .length = (uint32_t)(reader->at - begin),
        .file = reader->file,
        .line = reader->line,
        .kind = (uint8_t)kind,
        .is_system = reader->is_system,
    };
}

/* At the quote of a literal that began at `begin`. */
static void
read_quoted(struct reader *reader, const char *begin)
{
    const char quote = *reader->at++;
    while (reader->at < reader->end && *reader->at != quote && *reader->at != '\n') {
        if (*reader->at == '\\' && reader->at + 1 < reader->end)
            ++reader->at;
        ++reader->at;
    }
    if (reader->at < reader->end && *reader->at == quote)
        ++reader->at;
    while (reader->at < reader->end && is_word(*reader->at)) /* "..."_suffix */
        ++reader->at;
    add_token(reader, TOKEN_STRING, begin);
}

/* At the quote of R"delimiter( ... )delimiter". */
static void
read_raw(struct reader *reader, const char *begin)
{
    const char *open = memchr(reader->at, '(', (size_t)(reader->end - reader->at));
    if (open == NULL) {
        reader->at = reader->end;
        add_token(reader, TOKEN_STRING, begin);
        return;
    }
    char *closer = text_format(")%.*s\"", (int)(open - reader->at - 1), reader->at + 1);
    const char *close = memmem(open, (size_t)(reader->end - open), closer, strlen(closer));
    const char *from = reader->at;
    reader->at = close != NULL ? close + strlen(closer) : reader->end;
    free(closer);
    add_token(reader, TOKEN_STRING, begin);
    for (; from < reader->at; ++from)
        reader->line += *from == '\n';
}

/* pp-number: digits, letters, dots, quotes between digits, signs after an exponent. */
static void
read_number(struct reader *reader)
{
    const char *begin = reader->at++;
    while (reader->at < reader->end) {
        const char c = *reader->at;
        const bool sign = (c == '+' || c == '-') && strchr("eEpP", reader->at[-1]) != NULL;
        const bool separator = c == '\'' && reader->at + 1 < reader->end && is_word(reader->at[1]);
        if (!is_word(c) && c != '.' && !sign && !separator)
            break;
        ++reader->at;
    }
    add_token(reader, TOKEN_NUMBER, begin);
}

static void
read_word(struct reader *reader)
{
    static const char *const raw[] = {"R", "LR", "uR", "UR", "u8R"};
    static const char *const plain[] = {"L", "u", "U", "u8"};
    const char *begin = reader->at;
    while (reader->at < reader->end && is_word(*reader->at))
        ++reader->at;

    const size_t length = (size_t)(reader->at - begin);
    if (reader->at < reader->end && (*reader->at == '"' || *reader->at == '\'')) {
        for (size_t i = 0; i < sizeof(raw) / sizeof(raw[0]); ++i) {
            if (*reader->at == '"' && strlen(raw[i]) == length && memcmp(raw[i], begin, length) == 0) {
                read_raw(reader, begin);
                return;
            }
        }
        for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); ++i) {
            if (strlen(plain[i]) == length && memcmp(plain[i], begin, length) == 0) {
                read_quoted(reader, begin);
                return;
            }
        }
    }
    add_token(reader, TOKEN_WORD, begin);
}

/* "::", "->", "<=" and the like are one token, so that they are not taken for their parts; '<' and '>' stay alone. */
static void
read_sign(struct reader *reader)
{
    static const char *const doubles[] = {"::", "->", "<=", ">=", "==", "!=", "&&", "||", "++",
                                          "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="};
    const char *begin = reader->at++;
    if (reader->end - begin >= 3 && memcmp(begin, "...", 3) == 0) {
        reader->at = begin + 3;
    } else {
        for (size_t i = 0; i < sizeof(doubles) / sizeof(doubles[0]); ++i) {
            if (reader->end - begin >= 2 && memcmp(begin, doubles[i], 2) == 0) {
                reader->at = begin + 2;
                break;
            }
        }
    }
    add_token(reader, TOKEN_SIGN, begin);
}

/* Preprocessed text has no comments, unless the user asked to keep them. */
static bool
pass_comment(struct reader *reader)
{
    if (reader->end - reader->at < 2 || reader->at[0] != '/')
        return false;
    if (reader->at[1] == '/') {
        while (reader->at < reader->end && *reader->at != '\n')
            ++reader->at;
        return true;
    }
    if (reader->at[1] != '*')
        return false;
    const char *close = memmem(reader->at + 2, (size_t)(reader->end - reader->at - 2), "*/", 2);
    const char *stop = close != NULL ? close + 2 : reader->end;
    for (; reader->at < stop; ++reader->at)
        reader->line += *reader->at == '\n';
    return true;
}

static void
read_all(struct reader *reader)
{
    bool at_line_start = true;
    while (reader->at < reader->end) {
        const char c = *reader->at;
        if (c == '\n') {
            ++reader->line;
            ++reader->at;
            at_line_start = true;
        } else if (isspace((unsigned char)c)) {
            ++reader->at;
        } else if (c == '#' && at_line_start) {
            pass_directive(reader);
        } else if (!pass_comment(reader)) {
            at_line_start = false;
            if (is_word_start(c))
                read_word(reader);
            else if (isdigit((unsigned char)c) ||
                     (c == '.' && reader->at + 1 < reader->end && isdigit((unsigned char)reader->at[1])))
                read_number(reader);
            else if (c == '"' || c == '\'')
                read_quoted(reader, reader->at);
            else
                read_sign(reader);
        }
    }
}

static char
partner_of(char close)
{
    return close == ')' ? '(' : close == ']' ? '[' : '{';
}

/* Fills in token.match. Brackets in system headers are matched too: files of users may end inside one only by mistake.
 */
static bool
match_brackets(struct lexed *lexed)
{
    uint32_t *open = memory_grow(NULL, (lexed->count + 1) * sizeof(*open));
    uint32_t depth = 0;
    bool ok = true;
    for (uint32_t i = 0; i < lexed->count && ok; ++i) {
        struct token *token = &lexed->tokens[i];
        const char c = lexed->text[token->begin];
        if (token->kind != TOKEN_SIGN || token->length != 1)
            continue;
        if (c == '(' || c == '[' || c == '{') {
            open[depth++] = i;
        } else if (c == ')' || c == ']' || c == '}') {
            if (depth == 0 || lexed->text[lexed->tokens[open[depth - 1]].begin] != partner_of(c)) {
                token_complain(lexed, i, "'%c' without its '%c'", c, partner_of(c));
                ok = false;
            } else {
                token->match = open[--depth];
                lexed->tokens[token->match].match = i;
            }
        }
    }
    if (ok && depth > 0) {
        token_complain(lexed, open[depth - 1], "'%c' is never closed",
                       lexed->text[lexed->tokens[open[depth - 1]].begin]);
        ok = false;
    }
    free(open);
    return ok;
}

bool
lex(const char *text, size_t length, const struct lex_paths *paths, struct lexed *lexed_p)
{
    if (length > UINT32_MAX - 1) {
        complain("a preprocessed source of %zu bytes is more than 4 GiB", length);
        return false;
    }
    struct lexed lexed = {.text = text, .length = length};
    struct reader reader = {.at = text, .end = text + length, .out = &lexed, .line = 1, .paths = paths};
    reader.file = file_index(&reader, "<input>", false);
    read_all(&reader);
    add_token(&reader, TOKEN_END, reader.at);
    --lexed.count;
    if (!match_brackets(&lexed)) {
        lexed_free(&lexed);
        return false;
    }
    *lexed_p = lexed;
    return true;
}

void
lexed_free(struct lexed *lexed)
{
    for (size_t i = 0; i < lexed->files.count; ++i)
        free(lexed->files.items[i]);
    free(lexed->files.items);
    free(lexed->file_is_system);
    free(lexed->tokens);
    *lexed = (struct lexed){0};
}

bool
token_is(const struct lexed *lexed, uint32_t i, const char *spelling)
{
    const struct token *token = &lexed->tokens[i];
    return (token->kind == TOKEN_WORD || token->kind == TOKEN_SIGN) && strlen(spelling) == token->length &&
           memcmp(lexed->text + token->begin, spelling, token->length) == 0;
}

bool
token_run(const struct lexed *lexed, uint32_t i, char sign, uint32_t count)
{
    for (uint32_t k = 0; k < count; ++k) {
        if (i + k >= lexed->count)
            return false;
        const struct token *token = &lexed->tokens[i + k];
        if (token->kind != TOKEN_SIGN || token->length != 1 || lexed->text[token->begin] != sign)
            return false;
        if (k > 0 && token->begin != lexed->tokens[i + k - 1].begin + 1)
            return false;
    }
    return true;
}

void
token_complain(const struct lexed *lexed, uint32_t i, const char *format, ...)
{
    const struct token *token = &lexed->tokens[i];
    fprintf(stderr, "%s:%u: error: ", lexed->files.items[token->file], token->line);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}
