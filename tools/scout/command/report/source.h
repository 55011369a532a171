/*
 * source.h - the statements of a source file of C, C++ or CUDA, as far as lines can be put between them.
 *
 * No compiler: comments, texts and the preprocessor's lines are passed over, blocks and statements are told from
 * braces, semicolons and the words of control. What cannot be followed has no statement, and no line is put there.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_SOURCE_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NODE_NONE = UINT32_MAX };

/* A statement, or a block of them. Parents come before their children. */
struct source_node {
    size_t begin, end; /* in the text */
    uint32_t parent;   /* NODE_NONE: the file */
    bool is_block;
    bool is_loop; /* for, while, do */
};

struct source {
    char *path;
    char *text;
    struct source_node *nodes;
    uint32_t count;
};

/* The files that were read; zeroed: none. */
struct sources {
    struct source **files;
    uint32_t count;
};

/* NULL: it cannot be read. Valid until sources_close(). */
const struct source *sources_open(struct sources *sources, const char *path);
void sources_close(struct sources *sources);

/* The innermost statement of a line; of several, the one around the column. NODE_NONE: which one is not known. */
uint32_t source_statement(const struct source *source, int line, int column);
/* The number of the line that `at` stands in, from 1. */
int source_line(const struct source *source, size_t at);
/* The place of a line's column, both from 1. */
size_t source_place(const struct source *source, int line, int column);
/* Of node `inner`: the outermost node around it in the innermost block that holds `other`, too. NODE_NONE: no block
 * does. */
uint32_t source_beside(const struct source *source, uint32_t inner, uint32_t other);
/* The statement that is the function around a node: its header has parameters, its block is no class's. */
uint32_t source_function(const struct source *source, uint32_t node);
/* The block among a statement's children; NODE_NONE. */
uint32_t source_block(const struct source *source, uint32_t node);
/* Whether a line can be put in front of a statement: it begins its line. */
bool source_begins_line(const struct source *source, uint32_t node);

/* Behind blanks, comments and the preprocessor's lines. */
size_t source_skip(const char *text, size_t at);
/* Behind the token at `at`; a text counts as one. */
size_t source_token(const char *text, size_t at);
/* Behind the bracket that closes the one at `at`; `at` if none does. */
size_t source_close(const char *text, size_t at);
/* Behind "<int>", if one begins there; not beyond `end`. */
size_t source_skip_angles(const char *text, size_t at, size_t end);
bool source_is_word(char character);

#endif
