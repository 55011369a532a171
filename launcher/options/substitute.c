/* substitute.c - see options.h. */
#include "launcher/options/options.h"

#include "launcher/common/xcalloc.h"

#include <string.h>

char *
substitute_text(const char *text, const struct places *places)
{
    const char *const names[] = {"{rank}", "{local_rank}", "{world_size}"};
    const int numbers[] = {places->rank, places->local_rank, places->world_size};
    /* A number has at most 11 letters where its name had at least 6. */
    char *result = xcalloc(2 * strlen(text) + 12, 1), *to = result;
    while (*text != '\0') {
        int i = 0;
        while (i < 3 && strncmp(text, names[i], strlen(names[i])) != 0)
            ++i;
        if (i == 3)
            *to++ = *text;
        else
            to += sprintf(to, "%d", numbers[i]);
        text += i < 3 ? strlen(names[i]) : 1;
    }
    return result;
}
