/*
 * stdout.c - what a rank prints reaches ddprun line by line.
 *
 * Into a pipe or a file stdio writes when its buffer of some KiB is full: of a rank whose job is ended, the last lines
 * would be lost, which are those that matter. So in processes whose stdout is what ddprun has made for the rank,
 * stdio's stdout writes at the end of each line, as `stdbuf -oL` has it. Output that a script has redirected is left
 * alone, and so is a program that asks for a buffer of its own, or does not print through libc's stdio.
 *
 * The shim's only constructor: it must come before the program's first output, and before it starts a program
 * (execs.c). Reads the environment and one link, and fails in silence.
 */
#include "interpose/shim/shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((constructor)) static void
write_line_by_line(void)
{
    char place[512];
    execs_begin();
    const char *wanted = getenv(DDPRUN_ENV_STDOUT);
    if (wanted == NULL || getenv("_STDBUF_O") != NULL) /* a stdbuf within the rank has its own wish */
        return;
    ssize_t length = readlink("/proc/self/fd/1", place, sizeof(place) - 1);
    if (length <= 0)
        return;
    place[length] = '\0';
    if (strcmp(place, wanted) == 0)
        (void)setvbuf(stdout, NULL, _IOLBF, 0);
}
