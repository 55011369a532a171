/*
 * place.h - where in the source a call of the checked program stands.
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_PLACE_H
#define DDPRUN_TOOLS_CHECK_COMMAND_PLACE_H

#include <stddef.h>

/* `frames`: as a CHECK_ROW_SITE has them. "train.cu:31 from main.cu:80", or what is known; text that is no list of
 * frames is a place already. Reads the object's debug information. Returns `text`. */
const char *place_name(const char *frames, char *text, size_t room);

#endif
