/* xcalloc.c - see xcalloc.h. */
#include "launcher/common/xcalloc.h"

#include "base/message.h"
#include "base/protocol.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *
or_leave(void *memory)
{
    if (memory == NULL) {
        message_to(STDERR_FILENO); /* no thread lives to carry it there */
        message_line("out of memory, in the launcher; free some memory and start again");
        _exit(DDPRUN_EXIT_FAILURE);
    }
    return memory;
}

void *
xcalloc(size_t count, size_t size)
{
    return or_leave(calloc(count, size));
}

void *
xrealloc(void *old, size_t size)
{
    return or_leave(realloc(old, size));
}

char *
xstrdup(const char *text)
{
    return or_leave(strdup(text));
}

char *
xasprintf(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    return or_leave(length < 0 ? NULL : text);
}

/* ---- words ---- */

void
word_list_add(struct word_list *words, char *word)
{
    words->list = xrealloc(words->list, (words->count + 2) * sizeof(*words->list));
    words->list[words->count++] = word;
    words->list[words->count] = NULL;
}

void
words_free(char **words)
{
    for (char **word = words; word != NULL && *word != NULL; ++word)
        free(*word);
    free(words);
}
