/*
 * statements.h - the statements of a source file, by its tokens.
 *
 * No compiler: blocks and statements are told from braces, semicolons and the words of control. A declaration, a
 * function and a class are statements, too. Of text that is no C++ the statements are some.
 */
#ifndef SOFTGPU_TEXT_STATEMENTS_H
#define SOFTGPU_TEXT_STATEMENTS_H

#include "text/tokens.h"

#define STATEMENT_NONE UINT32_MAX

/* A statement, or a block of them. */
struct statement {
    struct token_range tokens; /* empty where the text has no more tokens */
    uint32_t parent;           /* STATEMENT_NONE: the file */
    bool is_block;
    bool is_loop; /* for, while, do */
};

struct statements {
    const struct code *code; /* the caller's; it must outlive this */
    struct statement *list;  /* in the order of their begins: parents come before their children */
    uint32_t count;
};

/* Reads all statements of a file. */
void statements_read(const struct code *code, struct statements *statements);
void statements_free(struct statements *statements);

/* The innermost statement, no block, around a token; STATEMENT_NONE. */
uint32_t statement_at(const struct statements *statements, uint32_t token);

/* The last block among a statement's children, which is its body; STATEMENT_NONE. */
uint32_t statement_block(const struct statements *statements, uint32_t statement);

/* The outermost function around a statement: its header has parameters, its block is no class's. STATEMENT_NONE. */
uint32_t statement_function(const struct statements *statements, uint32_t statement);

/* The tokens of a statement in front of the statements inside it. */
struct token_range statement_own(const struct statements *statements, uint32_t statement);

#endif
