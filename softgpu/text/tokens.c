/*
 * tokens.c - see tokens.h.
 */
#include "text/tokens.h"

#include "text/memory.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Where the lexer stands. */
struct reader {
    const char *at, *end;
    struct code *out;
    uint32_t capacity, directive_capacity;
    uint32_t line;
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

/* Whether the next character is `c`, and the one after it `next`. */
static bool
stands_at(const struct reader *reader, char c, char next)
{
    return reader->end - reader->at >= 2 && reader->at[0] == c && reader->at[1] == next;
}

/* How long the line continuation at the reader's place is: a backslash and the end of the line; 0: there is none. */
static size_t
continuation_length(const struct reader *reader)
{
    const size_t left = (size_t)(reader->end - reader->at);
    if (left >= 2 && memcmp(reader->at, "\\\n", 2) == 0)
        return 2;
    return left >= 3 && memcmp(reader->at, "\\\r\n", 3) == 0 ? 3 : 0;
}

static void
add_token(struct reader *reader, enum token_kind kind, const char *begin)
{
    struct code *out = reader->out;
    if (out->count + 1 >= reader->capacity) {
        reader->capacity = 2 * (reader->capacity + 32);
        out->tokens = memory_grow(out->tokens, reader->capacity * sizeof(*out->tokens));
    }
    out->tokens[out->count++] = (struct token){
        .begin = (uint32_t)(begin - out->text),
        .length = (uint32_t)(reader->at - begin),
        .line = reader->line,
        .kind = (uint8_t)kind,
    };
}

/* ---- what is no token ---- */

/* At the "//" of a comment. */
static void
pass_line_comment(struct reader *reader)
{
    while (reader->at < reader->end && *reader->at != '\n') {
        const size_t length = continuation_length(reader);
        reader->line += length > 0;
        reader->at += length > 0 ? length : 1;
    }
}

/* At the slash and the star of a comment. */
static void
pass_block_comment(struct reader *reader)
{
    const char *close = memmem(reader->at + 2, (size_t)(reader->end - reader->at - 2), "*/", 2);
    const char *stop = close != NULL ? close + 2 : reader->end;
    for (; reader->at < stop; ++reader->at)
        reader->line += *reader->at == '\n';
}

static bool
pass_comment(struct reader *reader)
{
    if (stands_at(reader, '/', '/'))
        pass_line_comment(reader);
    else if (stands_at(reader, '/', '*'))
        pass_block_comment(reader);
    else
        return false;
    return true;
}

/* At the quote of a literal: behind the one that closes it, or at the end of its line. */
static void
pass_quoted(struct reader *reader)
{
    const char quote = *reader->at++;
    while (reader->at < reader->end && *reader->at != quote && *reader->at != '\n') {
        const size_t length = continuation_length(reader);
        reader->line += length > 0;
        if (length > 0)
            reader->at += length;
        else
            reader->at += *reader->at == '\\' && reader->at + 1 < reader->end ? 2 : 1;
    }
    if (reader->at < reader->end && *reader->at == quote)
        ++reader->at;
}

/* At the '#' of a directive: passes the line and those that continue it. */
static void
pass_directive(struct reader *reader)
{
    struct code *out = reader->out;
    const char *begin = reader->at;
    while (reader->at < reader->end && *reader->at != '\n') {
        const size_t length = continuation_length(reader);
        reader->line += length > 0;
        if (length > 0)
            reader->at += length;
        else if (*reader->at == '"')
            pass_quoted(reader);
        else if (!pass_comment(reader))
            ++reader->at;
    }
    if (out->directive_count == reader->directive_capacity) {
        reader->directive_capacity = 2 * (reader->directive_capacity + 8);
        out->directives = memory_grow(out->directives, reader->directive_capacity * sizeof(*out->directives));
    }
    out->directives[out->directive_count++] = (struct directive){
        .begin = (uint32_t)(begin - out->text),
        .end = (uint32_t)(reader->at - out->text),
        .next = out->count,
        .next_line = reader->line + 1,
    };
}

/* ---- tokens ---- */

/* At the quote of a literal that began at `begin`. */
static void
read_quoted(struct reader *reader, const char *begin)
{
    const uint32_t line = reader->line;
    pass_quoted(reader);
    while (reader->at < reader->end && is_word(*reader->at)) /* "..."_suffix */
        ++reader->at;
    add_token(reader, TOKEN_STRING, begin);
    reader->out->tokens[reader->out->count - 1].line = line;
}

/* Behind the raw string whose quote is at `quote`: R"delimiter( ... )delimiter". */
static const char *
raw_end(const char *quote, const char *end)
{
    const char *open = memchr(quote, '(', (size_t)(end - quote));
    if (open == NULL)
        return end;
    const size_t length = (size_t)(open - quote - 1); /* of the delimiter */
    for (const char *close = open; (size_t)(end - close) >= length + 2; ++close) {
        close = memchr(close, ')', (size_t)(end - close));
        if (close == NULL || (size_t)(end - close) < length + 2)
            return end;
        if (memcmp(close + 1, quote + 1, length) == 0 && close[length + 1] == '"')
            return close + length + 2;
    }
    return end;
}

/* At the quote of a raw string that began at `begin`. */
static void
read_raw(struct reader *reader, const char *begin)
{
    const char *quote = reader->at;
    reader->at = raw_end(quote, reader->end);
    add_token(reader, TOKEN_STRING, begin);
    for (; quote < reader->at; ++quote)
        reader->line += *quote == '\n';
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

static bool
is_prefix(const char *word, size_t length, const char *const *prefixes)
{
    for (; *prefixes != NULL; ++prefixes) {
        if (strlen(*prefixes) == length && memcmp(*prefixes, word, length) == 0)
            return true;
    }
    return false;
}

static void
read_word(struct reader *reader)
{
    static const char *const raw[] = {"R", "LR", "uR", "UR", "u8R", NULL};
    static const char *const plain[] = {"L", "u", "U", "u8", NULL};
    const char *begin = reader->at;
    while (reader->at < reader->end && is_word(*reader->at))
        ++reader->at;

    const size_t length = (size_t)(reader->at - begin);
    const char after = reader->at < reader->end ? *reader->at : '\0';
    if (after == '"' && is_prefix(begin, length, raw))
        read_raw(reader, begin);
    else if ((after == '"' || after == '\'') && is_prefix(begin, length, plain))
        read_quoted(reader, begin);
    else
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

static void
read_token(struct reader *reader)
{
    const char c = *reader->at;
    const bool has_fraction = c == '.' && reader->at + 1 < reader->end && isdigit((unsigned char)reader->at[1]);
    if (is_word_start(c))
        read_word(reader);
    else if (isdigit((unsigned char)c) || has_fraction)
        read_number(reader);
    else if (c == '"' || c == '\'')
        read_quoted(reader, reader->at);
    else
        read_sign(reader);
}

static void
read_all(struct reader *reader)
{
    bool at_line_start = true;
    while (reader->at < reader->end) {
        const char c = *reader->at;
        const size_t continuation = continuation_length(reader);
        if (c == '\n' || continuation > 0) {
            ++reader->line;
            reader->at += continuation > 0 ? continuation : 1;
            at_line_start = at_line_start || continuation == 0;
        } else if (isspace((unsigned char)c)) {
            ++reader->at;
        } else if (c == '#' && at_line_start) {
            pass_directive(reader);
        } else if (!pass_comment(reader)) {
            at_line_start = false;
            read_token(reader);
        }
    }
}

/* ---- brackets ---- */

static char
bracket_of(const struct code *code, uint32_t i)
{
    const struct token *token = &code->tokens[i];
    const char c = token->kind == TOKEN_SIGN && token->length == 1 ? code->text[token->begin] : '\0';
    return c != '\0' && strchr("()[]{}", c) != NULL ? c : '\0';
}

static char
opening_of(char close)
{
    static const char closing[] = ")]}", opening[] = "([{";
    return opening[strchr(closing, close) - closing];
}

/* How many of the `depth` open brackets stay open after the closing bracket i: it closes the innermost one of its kind,
 * and those inside that have no partner. `depth`: none is of its kind. */
static uint32_t
close_bracket(struct code *code, const uint32_t *open, uint32_t depth, uint32_t i)
{
    const char wanted = opening_of(bracket_of(code, i));
    uint32_t left = depth;
    while (left > 0 && bracket_of(code, open[left - 1]) != wanted)
        --left;
    if (left == 0)
        return depth;
    code->tokens[i].match = open[left - 1];
    code->tokens[open[left - 1]].match = i;
    return left - 1;
}

/* Fills in token.match. */
static void
match_brackets(struct code *code)
{
    uint32_t *open = memory_grow(NULL, (code->count + 1) * sizeof(*open));
    uint32_t depth = 0;
    code->unmatched = code->count;
    for (uint32_t i = 0; i < code->count; ++i) {
        const char c = bracket_of(code, i);
        if (c == '\0')
            continue;
        if (strchr("([{", c) != NULL) {
            open[depth++] = i;
            continue;
        }
        const uint32_t left = close_bracket(code, open, depth, i);
        if (left + 1 != depth && code->unmatched == code->count)
            code->unmatched = i;
        depth = left;
    }
    if (depth > 0 && code->unmatched == code->count)
        code->unmatched = open[depth - 1];
    free(open);
}

/* ---- the door ---- */

bool
code_read(const char *text, size_t length, struct code *code_p)
{
    if (length > UINT32_MAX - 1)
        return false;
    struct code code = {.text = text, .length = length};
    struct reader reader = {.at = text, .end = text + length, .out = &code, .line = 1};
    reader.capacity = (uint32_t)(length / 8);
    code.tokens = memory_grow(NULL, ((size_t)reader.capacity + 1) * sizeof(*code.tokens));
    read_all(&reader);
    add_token(&reader, TOKEN_END, reader.at);
    --code.count;
    match_brackets(&code);
    *code_p = code;
    return true;
}

void
code_free(struct code *code)
{
    free(code->tokens);
    free(code->directives);
    *code = (struct code){0};
}

uint32_t
code_token_at(const struct code *code, size_t offset)
{
    uint32_t low = 0, high = code->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (token_end(code, middle) > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

bool
token_is_text(const struct code *code, uint32_t i, const char *text, size_t length)
{
    const struct token *token = &code->tokens[i];
    return token->length == length && memcmp(code->text + token->begin, text, length) == 0;
}

bool
token_is(const struct code *code, uint32_t i, const char *spelling)
{
    const enum token_kind kind = code->tokens[i].kind;
    return (kind == TOKEN_WORD || kind == TOKEN_SIGN) && token_is_text(code, i, spelling, strlen(spelling));
}

bool
token_is_one_of(const struct code *code, uint32_t i, const char *const *table)
{
    for (; *table != NULL; ++table) {
        if (token_is(code, i, *table))
            return true;
    }
    return false;
}

bool
token_begins(const struct code *code, uint32_t i, const char *beginning)
{
    const struct token *token = &code->tokens[i];
    const size_t length = strlen(beginning);
    return token->kind == TOKEN_WORD && token->length >= length &&
           memcmp(code->text + token->begin, beginning, length) == 0;
}

bool
token_is_same_word(const struct code *code, uint32_t a, uint32_t b)
{
    return token_is_word(code, a) && token_is_word(code, b) &&
           token_is_text(code, a, code->text + code->tokens[b].begin, code->tokens[b].length);
}

bool
token_run(const struct code *code, uint32_t i, char sign, uint32_t count)
{
    for (uint32_t k = 0; k < count; ++k) {
        if (i + k >= code->count)
            return false;
        const struct token *token = &code->tokens[i + k];
        if (token->kind != TOKEN_SIGN || token->length != 1 || code->text[token->begin] != sign)
            return false;
        if (k > 0 && token->begin != token_end(code, i + k - 1))
            return false;
    }
    return true;
}

uint32_t
token_enclosing(const struct code *code, uint32_t i)
{
    while (i-- > 0) {
        const char c = bracket_of(code, i);
        if (c == '\0')
            continue;
        const bool closes = strchr(")]}", c) != NULL;
        if (!closes)
            return i;
        const uint32_t open = code->tokens[i].match;
        if (code->tokens[open].match == i) /* else it has no partner */
            i = open;
    }
    return code->count;
}
