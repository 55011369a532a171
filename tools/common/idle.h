/*
 * idle.h - functions of an engine of a world of one that do nothing (interpose/engine.h): the tools' libraries in the
 * trainer take them for what they need not see. Members for which each of these has a function of its own are NULL.
 */
#ifndef DDPRUN_TOOLS_COMMON_IDLE_H
#define DDPRUN_TOOLS_COMMON_IDLE_H

#include "interpose/engine.h"

extern const struct engine engine_idle;

#endif
