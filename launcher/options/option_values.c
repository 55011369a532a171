/*
 * option_values.c - see option_values.h.
 */
#include "launcher/options/option_values.h"

#include "base/protocol.h"
#include "launcher/common/xcalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool
option_bad_value(struct error *error, const struct option_row *row, const char *value, const char *wanted)
{
    return error_set(error, DDPRUN_EXIT_USAGE, "'%s' is not %s, in --%s; see ddprun %s--help", value, wanted, row->name,
                     row->group == GROUP_CHECK ? "check " : "");
}

bool
option_whole_number(const char *text, unsigned long least, unsigned long most, unsigned long *number)
{
    if (text[0] == '\0' || strspn(text, "0123456789") != strlen(text))
        return false;
    errno = 0;
    unsigned long value = strtoul(text, NULL, 10);
    if (errno != 0 || value < least || value > most)
        return false;
    *number = value;
    return true;
}

bool
option_real_number(const char *text, double least, double most, double *number)
{
    if (text[0] == '\0' || strspn(text, "0123456789.eE+-") != strlen(text))
        return false;
    char *end;
    double value = strtod(text, &end);
    if (*end != '\0' || !(value >= least) || !(value <= most))
        return false;
    *number = value;
    return true;
}

int
option_one_of(const char *value, const char *const *names, int count)
{
    for (int i = 0; i < count; ++i) {
        if (names[i] != NULL && strcmp(value, names[i]) == 0)
            return i;
    }
    return -1;
}

bool
option_take_text(const struct option_row *row, const char **field, const char *value, const char *wanted,
                 struct error *error)
{
    if (value[0] == '\0')
        return option_bad_value(error, row, value, wanted);
    *field = value;
    return true;
}

const char *
option_keep(struct options *options, const char *text)
{
    size_t count = 0;
    while (options->owned != NULL && options->owned[count] != NULL)
        ++count;
    options->owned = xrealloc(options->owned, (count + 2) * sizeof(*options->owned));
    options->owned[count] = xstrdup(text);
    options->owned[count + 1] = NULL;
    return options->owned[count];
}
