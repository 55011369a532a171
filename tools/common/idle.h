/*
 * idle.h - functions of an engine of a world of one that do nothing (interpose/engine.h): the tools' libraries in the
 * trainer take them for what they need not see. Each member has a function.
 */
#ifndef DDPRUN_TOOLS_COMMON_IDLE_H
#define DDPRUN_TOOLS_COMMON_IDLE_H

#include "interpose/engine.h"

extern const struct engine engine_idle;

#endif
