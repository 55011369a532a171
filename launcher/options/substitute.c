/* substitute.c - see options.h. */
#include "launcher/options/options.h"

#include "launcher/common/xcalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* If `text` begins with one of the names: its length, and the number. */
static size_t
name_at(const char *text, const struct places *places, int *number_p)
{
    const struct {
        const char *name;
        int number;
    } names[] = {{"{rank}", places->rank}, {"{local_rank}", places->local_rank}, {"{world_size}", places->world_size}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        size_t length = strlen(names[i].name);
        if (strncmp(text, names[i].name, length) == 0) {
            *number_p = names[i].number;
            return length;
        }
    }
    return 0;
}

char *
substitute_text(const char *text, const struct places *places)
{
    /* A number has at most 11 letters where its name had at least 6. */
    char *result = xcalloc(2 * strlen(text) + 12, 1), *to = result;
    while (*text != '\0') {
        int number;
        size_t length = name_at(text, places, &number);
        if (length > 0)
            to += sprintf(to, "%d", number);
        else
            *to++ = *text;
        text += length > 0 ? length : 1;
    }
    return result;
}

char **
substitute_list(char *const *list, const struct places *places)
{
    size_t count = 0;
    while (list[count] != NULL)
        ++count;
    char **result = xcalloc(count + 1, sizeof(*result));
    for (size_t i = 0; i < count; ++i)
        result[i] = substitute_text(list[i], places);
    return result;
}
