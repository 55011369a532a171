/*
 * lex.h - preprocessed C++ as tokens: of which file each one is, by the line markers of the preprocessor.
 *
 * White space and directives stay in the text between tokens, so that a rewritten file keeps its lines.
 */
#ifndef SOFTGPU_CC_LEX_H
#define SOFTGPU_CC_LEX_H

#include "text.h"
#include "text/tokens.h"

/* The files of a preprocessed source. token.file is an index of both. */
struct files {
    struct list names;
    bool *is_system; /* passed through unread */
};

/* Whose files are passed through: by the beginnings of their paths. */
struct lex_paths {
    struct list system;     /* always */
    struct list not_system; /* never, although they were included as system headers */
};

/*
 * Reads text[0..length), which stays the caller's and must outlive *code_p; token.line is the line of token.file. Other
 * files are system headers if the line marker with which they begin has flag 3. Later markers do not count: flag 3 in
 * the middle of a user's file is the expansion of a macro from a system header. Returns false after a message (a
 * bracket without a partner, more than 4 GiB); *code_p and *files_p are then untouched.
 */
bool lex(const char *text, size_t length, const struct lex_paths *paths, struct code *code_p, struct files *files_p)
    __attribute__((warn_unused_result));

void files_free(struct files *files);

/* Writes "file:line: error: ..." to stderr, in the form of the host compiler. */
void token_complain(const struct code *code, const struct files *files, uint32_t i, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
