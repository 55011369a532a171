/*
 * settings.h - which places of a source give a variable its value, and whether that may differ between ranks. By the
 * source's tokens: what cannot be followed may differ. For origin.c.
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_SETTINGS_H
#define DDPRUN_TOOLS_CHECK_COMMAND_SETTINGS_H

#include "tools/scout/command/report/lines.h"

/* A variable, in the part of a source where it has this name. */
struct variable {
    const struct source *source;
    const char *name; /* the caller's, which must outlive this */
    size_t length;
    struct token_range in;
    bool is_of_file; /* or of a class: `in` is the whole file */
    bool is_parameter;
};

/* What sets it: the token of its name there, and an expression, or a call that gets its address. */
struct setting {
    uint32_t token;
    struct token_range value;
    bool is_call;  /* no value */
    bool is_share; /* by DDP_SHARD */
};
enum { SETTINGS_AT_MOST = 12 };

/* An expression, with the names of a place in a source. */
struct expression {
    const struct code *code; /* the source's, or that of a text */
    struct token_range tokens;
    const struct source *source;
    uint32_t token; /* token of the source */
};

/* The variable of which a name at a token tells: of the innermost block that declares it, a parameter, or of the file.
 */
struct variable variable_find(const struct source *source, uint32_t at, const char *name, size_t length);

/* The next token from `at` on that has the name; variable->in.end: none has. */
uint32_t variable_next(const struct variable *variable, uint32_t at);

/* Behind the members and elements of a variable whose name is before `at`: ".x[3]". */
uint32_t variable_behind_parts(const struct code *code, uint32_t at);

/* How many variables of an expression, without `but` (or NULL), may have another value on a rank; *only: the first one.
 * One that is a pointer counts for more: it is not the variable alone that may differ. */
size_t expression_variables(const struct expression *expression, const struct variable *but, struct variable *only);

/* The settings by which a variable may differ where statement `use` (a token) uses it: by their values, or by a
 * condition around them. Returns how many. */
size_t settings_that_differ(const struct variable *variable, uint32_t use, struct setting list[SETTINGS_AT_MOST]);

/* The only one of those. False: there is none, or more than one. */
bool settings_find_one(const struct variable *variable, uint32_t use, struct setting *setting)
    __attribute__((warn_unused_result));

/* The condition of the innermost statement around a token, within tokens of the source, that may have another value on
 * a rank. `but` (or NULL): a variable that does not count. False: there is none. */
bool settings_find_condition(const struct source *source, uint32_t at, struct token_range in,
                             const struct variable *but, struct expression *condition)
    __attribute__((warn_unused_result));

/* Whether a word among tokens contains a text. */
bool tokens_mention(const struct code *code, uint32_t first, uint32_t end, const char *text);

#endif
