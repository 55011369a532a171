/*
 * passage.h - from a function to its caller: what an expression of the one is in the other. For lift.c.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_PASSAGE_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_PASSAGE_H

#include "softgpu/text/calls.h"
#include "tools/scout/command/report/lines.h"

/* The function in which an expression was said, and the call of it. */
struct passage {
    const struct source *inner;
    const struct source_node *function; /* of `inner` */
    uint32_t said;                      /* token of `inner`: the statement with the expression */
    struct call parameters;             /* the function's header, read as a call */
    const struct source *outer;
    const struct source_node *caller; /* of `outer`: the statement with the call */
    struct call call;
    bool makes;         /* the function is a constructor, and call.name the object that it makes */
    const char *name;   /* of the function, "make<float>" with what its template got */
    const char *callee; /* the function that the statement `said` calls; "": none of the program's */
    bool is_front;      /* in front of the call, before the function gives names other values */
};

/* Says an expression of the function at its call; "" if that is not possible. */
void passage_lift(const struct passage *passage, char expression[LIFT_BYTES]);

/* "in" of "net->x = in;", the only value that the function gives an expression before its use; "": several. */
void passage_follow_value(const struct passage *passage, char expression[LIFT_BYTES]);

/* Whether the function's result is what an expression says; "": whether the statement returns its call's result. */
bool passage_returns(const struct passage *passage, const char *expression);

/* Whether the function's result is that of its call, as it is. */
bool passage_returns_call(const struct passage *passage);

/* Whether the function's result is a smart pointer to what an expression says. */
bool passage_returns_owner(const struct passage *passage, const char *expression);

/* Whether parameters of templates, and constants of a class, alone make an expression what it is. */
bool passage_is_fixed(const struct passage *passage, const char *expression);

/* "layer->weight" of "layer->weight = (float *)call(...)"; "": what another call makes of the result is not that. */
void passage_assigned_to(const struct passage *passage, char to[LIFT_BYTES]);

/* The memory of the smart pointer that the call's result is: "w.get()" of "auto w = call(...)"; "": it has no name. */
void passage_owned(const struct passage *passage, char to[LIFT_BYTES]);

/* Whether a statement that begins among tokens declares the name. */
bool passage_is_declared(const struct source *source, struct token_range in, const char *name, size_t length);

#endif
