/*
 * placed.h - a verdict, once the first operation that differs is known. Pure.
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_PLACED_H
#define DDPRUN_TOOLS_CHECK_COMMAND_PLACED_H

#include "tools/check/command/place_question.h"
#include "tools/check/verdict/verdict.h"

/* The place comes first, then what differs; the place's advice replaces the verdict's, but where that has a factor. A
 * place may prove another cause. `verdict` is about a tensor. */
void placed_verdict(struct check_verdict *verdict, const struct place *place);

#endif
