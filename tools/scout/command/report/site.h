/*
 * site.h - where in the source a call of a scouted program stands.
 *
 * By debug information (libdw), where the build has libdw and the object has debug information; else the function, if
 * its symbol is there; else object and offset.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_SITE_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_SITE_H

#include "tools/scout/format/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct site_place {
    char file[256];    /* "" if it is not known */
    int line, column;  /* column: 0 if it is not known */
    char function[96]; /* "" if it is not known */
    char text[384];    /* "train.cu:31", "main in train", "train+0x1234" */
};

/* Objects that are open; one for each log. */
struct sites;

struct sites *sites_open(const struct scout_log *log);
void sites_close(struct sites *sites);

/* The innermost frame of a call site that is the program's own: no stub that a compiler made. False: nothing is known
 * of it, and text is "?". */
bool sites_find(struct sites *sites, uint32_t site, struct site_place *place);

/* As sites_find(), with the line that calls it where that is known: "model.c:25 from train.c:80". Returns `text`. */
const char *sites_text(struct sites *sites, uint32_t site, char *text, size_t room);

/* The frames of the program's own sources, innermost first, inlined calls among them: no stub, no header of a toolkit
 * or of the system, nothing without a source line. *count_p: how many. Valid until sites_close(). */
const struct site_place *sites_frames(struct sites *sites, uint32_t site, uint32_t *count_p);

/* A text for users with what its numbers mean: behind the first mention of each allocation of the log, a3 or a3[0:64],
 * where the program made it, and how large: "a3[0:64] (train.cu:41, 4096 bytes)". free() releases it. */
char *sites_explain(const struct scout_log *log, const char *text);

#endif
