/*
 * owners.h - objects that own memory: what a constructor makes, and smart pointers. For passage.c and lift.c.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_OWNERS_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_OWNERS_H

#include "softgpu/text/calls.h"
#include "tools/scout/command/report/lines.h"

/* The part of a statement that a place of its text is in: of a constructor's header the member that is made there,
 * "w(make(3))" of "Net() : n(3), w(make(3)) {", which compilers name by its first letter; else the tokens in front of
 * statements inside it. */
struct token_range owners_part(const struct source_node *statement, size_t place);

/* Where a statement makes an object of a class: "Matrix w(rows, 3)", "Net(int n) : w(n, 3) {". call->name is the
 * object; of several it is the one around a place of the text. False: it makes none, or which of several is not known.
 */
bool owners_find_made(const struct source_node *statement, const char *class_name, size_t place, struct call *call)
    __attribute__((warn_unused_result));

/* Whether a value is a smart pointer that a function makes of its memory: "std::unique_ptr<T[], Free>(p)", or with a
 * name that the source gives this class by `using`. */
bool owners_take(const struct source *source, struct token_range value, const char *memory);

/* The smart pointer that gets the result of a call without '=': "w" of "Net() : w(make(3)) {", "list.back()" of
 * "list.push_back(make(3));". False: there is none. */
bool owners_find_receiver(const struct source_node *statement, const struct call *call, char to[LIFT_BYTES])
    __attribute__((warn_unused_result));

#endif
