/*
 * word_list.c - see word_list.h.
 */
#include "launcher/common/word_list.h"

#include "launcher/common/xcalloc.h"

void
word_list_add(struct word_list *words, char *word)
{
    words->list = xrealloc(words->list, (words->count + 2) * sizeof(*words->list));
    words->list[words->count++] = word;
    words->list[words->count] = NULL;
}
