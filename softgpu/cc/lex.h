/*
 * lex.h - preprocessed C++ as tokens.
 *
 * '<' and '>' are tokens of their own, never "<<" or ">>>": which of them close template arguments and which belong to
 * a launch is not for a lexer to know. White space, comments and directives (line markers, #pragma) are not tokens;
 * they stay in the text between tokens, so that a rewritten file keeps its lines.
 */
#ifndef SOFTGPU_CC_LEX_H
#define SOFTGPU_CC_LEX_H

#include "text.h"

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
    uint32_t file; /* index in lexed.files */
    uint32_t line;
    uint32_t match; /* of ( [ { ) ] }: the token index of its partner */
    uint8_t kind;   /* enum token_kind */
    bool is_system; /* from a header that is passed through unread */
};

struct lexed {
    const char *text;
    size_t length;
    struct token *tokens; /* the last one is TOKEN_END */
    uint32_t count;       /* without TOKEN_END */
    struct list files;
    bool *file_is_system;
};

/* Whose files are passed through: by the beginnings of their paths. */
struct lex_paths {
    struct list system;     /* always */
    struct list not_system; /* never, although they were included as system headers */
};

/*
 * Splits text[0..length), which stays the caller's and must outlive *lexed_p. Other files are system headers if the
 * line marker with which they begin has flag 3. Later markers do not count: flag 3 in the middle of a user's file
 * is the expansion of a macro from a system header. Returns false after a message (a bracket without a partner, more
 * than 4 GiB); *lexed_p is then untouched.
 */
bool lex(const char *text, size_t length, const struct lex_paths *paths, struct lexed *lexed_p)
    __attribute__((warn_unused_result));

void lexed_free(struct lexed *lexed);

/* Whether token i is this word or sign. Strings never are. */
bool token_is(const struct lexed *lexed, uint32_t i, const char *spelling);

/* Whether tokens i, i+1, ... i+count-1 are all `sign`, with nothing between them: "<<<" and ">>>". */
bool token_run(const struct lexed *lexed, uint32_t i, char sign, uint32_t count);

/* Writes "file:line: error: ..." to stderr, in the form of the host compiler. */
void token_complain(const struct lexed *lexed, uint32_t i, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
