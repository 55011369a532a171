/*
 * calls.h - calls in a source's text, with their arguments and the object of a method. For lift.c.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_CALLS_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_CALLS_H

#include "tools/scout/command/report/lift.h"

enum { ARGUMENTS_AT_MOST = 24 };

/* A part of a source's text. */
struct span {
    size_t begin, end;
};

struct call {
    struct span name, object; /* object: "layer->weight." in front of a method, "" without one */
    struct span arguments[ARGUMENTS_AT_MOST];
    uint32_t count;
    bool makes; /* a constructor: the object is what it makes */
};

/* The part without comments, and with one blank for each gap. False: no room. */
bool call_copy_span(const char *text, struct span span, char to[LIFT_BYTES]);
/* Whether a part of a text is this word. */
bool call_is_word(const char *text, struct span span, const char *word, size_t length);
/* Whether an expression needs no brackets where it replaces a name. */
bool call_is_primary(const char *expression);
/* Where the expression that ends before `end` begins: "net->w[i]" of "float *net->w[i]". */
size_t call_begin_of_postfix(const char *text, size_t begin, size_t end);
/* A call "name(", "name<int>(", of a constructor "name object(", in a part of the text. False: none, or which of
 * several is not known. */
bool call_find(const char *text, struct span in, const char *name, bool makes, size_t place, struct call *call);
/* What stands between a function's header and its body: ": weight(n), bias(m)". The member that is made in this line.
 */
bool call_find_member(const struct source *source, struct span in, int line, struct call *call);
/* The part of a statement that is its own, in front of statements inside it. */
struct span call_own_part(const struct source *source, uint32_t node);

#endif
