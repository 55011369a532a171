/*
 * lift.h - how memory is called in the functions around the call that allocates or copies it.
 *
 * From `cudaMalloc(&memory, count * sizeof(float))` in a helper, `tensor->value = allocate(count)` in its caller, and
 * `tensor_create(layer->weights, n)` in the next comes `layer->weights->value`, with `n * sizeof(float)` bytes: a
 * parameter becomes the argument, a result what it is assigned to, a member that of the object. By the source's text:
 * what cannot be followed has no name.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_LIFT_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_LIFT_H

#include "tools/scout/command/report/site.h"
#include "tools/scout/command/report/source.h"

enum { LIFT_BYTES = 256 };

/* Expressions, "" what is not known. Of a copy the memory is where it goes to. */
struct lifted {
    char memory[LIFT_BYTES], bytes[LIFT_BYTES], stream[LIFT_BYTES], source[LIFT_BYTES];
    bool source_is_passed; /* each function has got it from its caller */
};

/* As frame `depth` of a call's stack says it. False: not known there, not even the bytes. */
bool lift(struct sources *sources, const struct site_place *frames, uint32_t depth, struct lifted *lifted)
    __attribute__((warn_unused_result));

/* Takes the brackets away that are around all of an expression, in its own memory. */
char *lift_bare(char *expression);

/* Whether a name of an expression is declared among the statements in [begin, end) of the text. */
bool lift_uses_local(const struct source *source, const char *expression, size_t begin, size_t end);

#endif
