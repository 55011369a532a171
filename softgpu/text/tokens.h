/*
 * tokens.h - C++ and CUDA text as tokens: source files as people write them, and what a preprocessor makes of them.
 *
 * '<' and '>' are tokens of their own, never "<<" or ">>>": which of them close template arguments and which belong to
 * a launch is not for a lexer to know. White space, comments, line continuations and directives are not tokens. A word
 * that a line continuation splits is two.
 *
 * Any text can be read. Brackets that do not fit have no partner: `#if` and `#else` may both open a block that is
 * closed once. Out of memory ends the program. A struct code belongs to one thread at a time; the text stays the
 * caller's and must outlive it.
 */
#ifndef SOFTGPU_TEXT_TOKENS_H
#define SOFTGPU_TEXT_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum token_kind {
    TOKEN_END,  /* after the last token */
    TOKEN_WORD, /* identifier or keyword */
    TOKEN_NUMBER,
    TOKEN_STRING, /* string or character literal, raw or not, with its prefix */
    TOKEN_SIGN,   /* operator or punctuation */
};

struct token {
    uint32_t begin; /* offset in the text */
    uint32_t length;
    uint32_t line;  /* of the text, from 1 */
    uint32_t match; /* of ( [ { ) ] }: the index of its partner; 0: it has none */
    uint32_t file;  /* the caller's, for what it reads from line markers; 0 at first */
    uint8_t kind;   /* enum token_kind */
    bool is_system; /* the caller's, as `file` is */
};

/* A line that begins with '#', and the lines that continue it. */
struct directive {
    uint32_t begin, end; /* offsets in the text: from the '#' on, without the end of the line */
    uint32_t next;       /* the index of the token after it */
    uint32_t next_line;  /* the line after it */
};

struct code {
    const char *text;
    size_t length;
    struct token *tokens; /* the last one is TOKEN_END */
    uint32_t count;       /* without TOKEN_END */
    struct directive *directives;
    uint32_t directive_count;
    uint32_t unmatched; /* the first bracket that does not fit; `count`: all do */
};

/* Tokens first..end-1. */
struct token_range {
    uint32_t first, end;
};

/* Reads text[0..length) as tokens, of at most 4 GiB. False: it is longer; *code_p is then untouched. */
bool code_read(const char *text, size_t length, struct code *code_p) __attribute__((warn_unused_result));
void code_free(struct code *code);

/* The first token that ends after an offset of the text; `count`: none does. */
uint32_t code_token_at(const struct code *code, size_t offset);

/* Whether token i is this word or sign. Strings never are. */
bool token_is(const struct code *code, uint32_t i, const char *spelling);

/* Whether token i is a word or a sign of this NULL-terminated table. */
bool token_is_one_of(const struct code *code, uint32_t i, const char *const *table);

/* Whether token i is a word that begins so. */
bool token_begins(const struct code *code, uint32_t i, const char *beginning);

/* Whether token i has these length characters, whatever its kind is. */
bool token_is_text(const struct code *code, uint32_t i, const char *text, size_t length);

static inline bool
token_is_word(const struct code *code, uint32_t i)
{
    return code->tokens[i].kind == TOKEN_WORD;
}

/* Whether tokens a and b are the same word. */
bool token_is_same_word(const struct code *code, uint32_t a, uint32_t b);

/* Whether tokens i, i+1, ... i+count-1 are all `sign`, with nothing between them: "<<<" and ">>>". */
bool token_run(const struct code *code, uint32_t i, char sign, uint32_t count);

/* The offset of the text after token i. */
static inline uint32_t
token_end(const struct code *code, uint32_t i)
{
    return code->tokens[i].begin + code->tokens[i].length;
}

/* Behind the last token of the group that opens at i, if i is '(' '[' or '{' with a partner; else i + 1. */
static inline uint32_t
token_next(const struct code *code, uint32_t i)
{
    return code->tokens[i].match > i ? code->tokens[i].match + 1 : i + 1;
}

/* The bracket that is open at i, or the place of TOKEN_END. */
uint32_t token_enclosing(const struct code *code, uint32_t i);

#endif
