/*
 * words.c - see session.h.
 */
#include "tools/check/command/session.h"

#include "base/protocol.h"
#include "launcher/common/xcalloc.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Copies one word to `to`, without its quotes; returns where it ends, or NULL: a quote is not closed. */
static const char *
take_word(const char *from, char *to)
{
    char quote = '\0';
    for (; *from != '\0' && (quote != '\0' || !isspace((unsigned char)*from)); ++from) {
        bool escapes =
            *from == '\\' && from[1] != '\0' && (quote == '\0' || (quote == '"' && strchr("\"\\$`", from[1]) != NULL));
        if (escapes)
            *to++ = *++from;
        else if (quote != '\0' && *from == quote)
            quote = '\0';
        else if (quote == '\0' && (*from == '\'' || *from == '"'))
            quote = *from;
        else
            *to++ = *from;
    }
    *to = '\0';
    return quote == '\0' ? from : NULL;
}

char **
words_split(const char *first, const char *line, struct error *error)
{
    char **words = xcalloc(strlen(line) / 2 + 3, sizeof(*words)), *word = xstrdup(line);
    size_t count = 0;
    words[count++] = xstrdup(first);
    while (line != NULL) {
        line += strspn(line, " \t\n\r\v\f");
        if (*line == '\0')
            break;
        line = take_word(line, word);
        if (line != NULL)
            words[count++] = xstrdup(word);
    }
    free(word);
    if (line != NULL)
        return words;
    for (size_t i = 0; i < count; ++i)
        free(words[i]);
    free(words);
    (void)error_set(error, DDPRUN_EXIT_USAGE, "a quote is not closed, in --alone; close it, or write \\' or \\\"");
    return NULL;
}
