/*
 * words.h - a line of arguments split as a shell splits words, nothing expanded (--alone).
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_WORDS_H
#define DDPRUN_TOOLS_CHECK_COMMAND_WORDS_H

#include "launcher/common/error.h"

/*
 * Words are separated by blanks; '...' holds everything but ', "..." everything but " and \ in front of " \ $ `, and \
 * outside of quotes takes the next character as it is (POSIX, Shell Command Language, 2.2). `first` comes before them.
 * NULL-terminated, malloc'ed as a list and one by one; NULL with an error (DDPRUN_EXIT_USAGE): a quote is not closed.
 */
char **words_split(const char *first, const char *line, struct error *error);

#endif
