/*
 * origin.h - where a call stands in the program's source, and where the host gives its arguments their values. Reads
 * debug information and sources.
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_ORIGIN_H
#define DDPRUN_TOOLS_CHECK_COMMAND_ORIGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `frames`: as a CHECK_ROW_SITE has them. "train.cu:31 from main.cu:80", or what is known; text that is no list of
 * frames is a place already. Reads the object's debug information. Returns `text`. */
const char *place_name(const char *frames, char *text, size_t room);

/* "argument 5 (`touched`)", as the launch or the call of cuBLAS there has it in its source, where that is known.
 * `number`: from 0. Returns `text`. */
enum { PLACE_ARGUMENT_BYTES = 96 };
const char *place_name_argument(const char *frames, uint32_t number, bool is_member, char text[PLACE_ARGUMENT_BYTES]);

/* The line where the host gives an argument its value: `name` is what the argument is called there, `from` is empty or
 * ", computed from `seen` (train.cu:12)". */
enum { ORIGIN_NAME_BYTES = 96, ORIGIN_PLACE_BYTES = 120, ORIGIN_FROM_BYTES = 300 };
struct origin {
    char name[ORIGIN_NAME_BYTES], place[ORIGIN_PLACE_BYTES], from[ORIGIN_FROM_BYTES];
    bool is_share; /* what it is computed from is the rank's share, by DDP_SHARD */
};
/* False: the argument is no variable, or several lines may give it this value. Reads the program's source. */
bool origin_find(const char *frames, uint32_t number, struct origin *origin);
/* Instead of an argument's number. ORIGIN_OF_TEXT + number: `from` is the argument as the source has it. Of a copy:
 * what it gets from the host, and in `from` at most three lines that fill it. Of a decision: the innermost condition
 * around the call that may differ between ranks. Of a call of CUDA: `name` is the function's, as the source has it. Of
 * a copy to the host: `place` is the first line after it that uses what it brings. */
#define ORIGIN_OF_TEXT     (1U << 16)
#define ORIGIN_OF_COPY     (UINT32_MAX - 1)
#define ORIGIN_OF_DECISION (UINT32_MAX - 2)
#define ORIGIN_OF_CALL     (UINT32_MAX - 3)
#define ORIGIN_OF_USE      (UINT32_MAX - 4)

#endif
