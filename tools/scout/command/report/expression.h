/*
 * expression.h - expressions of a program as short texts, which become lines of the program: for lift.c and passage.c.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_EXPRESSION_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_EXPRESSION_H

#include "tools/scout/command/report/lines.h"

/* Tokens as a text without comments, and with one blank for each gap. False: no room. */
bool expression_copy(const struct code *code, struct token_range tokens, char to[LIFT_BYTES])
    __attribute__((warn_unused_result));

/* Reads a text of at most LIFT_BYTES; code_free() releases it. */
struct code expression_read(const char *text);

/* Whether an expression needs no brackets where it replaces a name. */
bool expression_is_primary(const char *expression);

/* The next name from token *i on that stands for itself: no member, no type, no number, and no function but one without
 * arguments, which may be a method. *i becomes its token. False: there is none. */
bool expression_next_name(const struct code *code, uint32_t *i);

/* The tokens of a statement's first assignment, behind the '=', without the semicolon. False: it has none. */
bool expression_assigned(const struct code *code, struct token_range statement, struct token_range *value)
    __attribute__((warn_unused_result));

/* Whether tokens hold a sign or a word. */
bool expression_has(const struct code *code, struct token_range tokens, const char *spelling);

/* "name = ", "name += ", "++name", "&name", "name.push_back(x)", "move(name)": whether one of the tokens may give a
 * name another value. */
bool expression_sets(const struct code *code, struct token_range tokens, const char *name, size_t length);

#endif
