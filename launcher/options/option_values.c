/*
 * option_values.c - how the value of an option is read, stored and written, by its kind (command.h).
 */
#include "launcher/options/command.h"

#include "base/protocol.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct command *option_mixed;

enum { MIB_BYTES = 1 << 20 };

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

/* Decimal: strtod also takes blanks, hexadecimal, "inf" and "nan". */
static bool
parse_real(const char *text, double *number)
{
    char *end;
    if (text[0] == '\0' || strspn(text, "0123456789.eE+-") != strlen(text))
        return false;
    *number = strtod(text, &end);
    return *end == '\0';
}

/* The place of `word` in "a|b|c"; -1: it is not in it. */
static int
place_of_word(const char *word, const char *list)
{
    size_t length = strlen(word);
    for (int place = 0;; ++place) {
        size_t own = strcspn(list, "|");
        if (own == length && strncmp(list, word, own) == 0)
            return place;
        if (list[own] == '\0')
            return -1;
        list += own + 1;
    }
}

/* "a|b|c" gives "one of a, b, c". */
static void
describe_words(const char *list, char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "one of ");
    for (; *list != '\0' && used + 3 < bytes; ++list) {
        text[used++] = *list == '|' ? ',' : *list;
        if (*list == '|')
            text[used++] = ' ';
    }
    text[used] = '\0';
}

bool
option_bad_value(const struct option_row *row, const char *command, const char *value, struct error *error)
{
    char words[100];
    const char *of = row->group == GROUP_MIXED ? option_mixed->name : command;
    if (row->kind == OPTION_ONE_OF)
        describe_words(row->argument, words, sizeof(words));
    return error_set(error, DDPRUN_EXIT_USAGE, "'%s' is not %s, in --%s; see ddprun %s%s--help", value,
                     row->kind == OPTION_ONE_OF ? words : row->wanted, row->name, of, of[0] != '\0' ? " " : "");
}

static bool
store_whole(const struct option_row *row, unsigned *field, const char *value)
{
    unsigned long number;
    bool zero = (row->flags & OR_ZERO) != 0 && option_whole_number(value, 0, 0, &number);
    if (!zero && !option_whole_number(value, (unsigned long)row->least, (unsigned long)row->most, &number))
        return false;
    *field = (unsigned)number;
    return true;
}

static bool
store_real(const struct option_row *row, double *field, const char *value)
{
    double number;
    if (!parse_real(value, &number) || !(number >= row->least) || !(number <= row->most))
        return false;
    *field = number;
    return true;
}

static bool
store_mib(const struct option_row *row, uint64_t *field, const char *value)
{
    double mib;
    if (!parse_real(value, &mib) || !(mib * MIB_BYTES >= 1.0) || mib > row->most)
        return false;
    *field = (uint64_t)llround(mib * MIB_BYTES);
    return true;
}

static bool
store_word(const struct option_row *row, unsigned *field, const char *value)
{
    int place = place_of_word(value, row->argument);
    if (place < 0)
        return false;
    *field = (unsigned)place + (unsigned)row->least;
    return true;
}

static bool
store(const struct option_row *row, char *field, const char *value)
{
    bool is_on = value == NULL || strcmp(value, "0") != 0; /* given, or switched by a setting */
    switch (row->kind) {
    case OPTION_SWITCH:
        *(bool *)field = is_on;
        return true;
    case OPTION_UNSWITCH:
        *(bool *)field = !is_on;
        return true;
    case OPTION_WHOLE:
        return store_whole(row, (unsigned *)field, value);
    case OPTION_REAL:
        return store_real(row, (double *)field, value);
    case OPTION_MIB:
        return store_mib(row, (uint64_t *)field, value);
    case OPTION_ONE_OF:
        return store_word(row, (unsigned *)field, value);
    case OPTION_TEXT:
        *(const char **)field = value;
        return value[0] != '\0';
    default:
        return false;
    }
}

bool
option_take(const struct option_row *row, void *target, const char *command, const char *value, struct error *error)
{
    target = row->target != NULL ? row->target : target;
    if (row->given != 0)
        *(bool *)((char *)target + row->given) = true;
    if (row->kind == OPTION_SPECIAL)
        return row->take(row, target, value, error);
    return store(row, (char *)target + row->field, value) || option_bad_value(row, command, value, error);
}

bool
option_is_set(const struct option_row *row, const void *target)
{
    const char *field = (const char *)(row->target != NULL ? row->target : target) + row->field;
    if (row->given != 0)
        return *(const bool *)((const char *)target + row->given);
    switch (row->kind) {
    case OPTION_SWITCH:
        return *(const bool *)field;
    case OPTION_UNSWITCH:
        return !*(const bool *)field;
    case OPTION_WHOLE:
        return *(const unsigned *)field != 0 || row->least == 0;
    case OPTION_MIB:
        return *(const uint64_t *)field != 0;
    case OPTION_TEXT:
        return *(const char *const *)field != NULL;
    default:
        return true;
    }
}

void
option_value_text(const struct option_row *row, const void *target, int digits, char *text, size_t bytes)
{
    const char *field = (const char *)target + row->field, *word = row->argument;
    text[0] = '\0';
    switch (row->kind) {
    case OPTION_SWITCH:
    case OPTION_UNSWITCH:
        snprintf(text, bytes, "%s", option_is_set(row, target) ? "on" : "off");
        break;
    case OPTION_WHOLE:
        snprintf(text, bytes, "%u", *(const unsigned *)field);
        break;
    case OPTION_REAL:
        snprintf(text, bytes, "%.*g", digits, *(const double *)field);
        break;
    case OPTION_MIB:
        snprintf(text, bytes, "%.*g", digits, (double)*(const uint64_t *)field / MIB_BYTES);
        break;
    case OPTION_ONE_OF:
        for (unsigned i = (unsigned)row->least; i < *(const unsigned *)field; ++i)
            word += strcspn(word, "|") + 1;
        snprintf(text, bytes, "%.*s", (int)strcspn(word, "|"), word);
        break;
    case OPTION_TEXT:
        snprintf(text, bytes, "%s", *(const char *const *)field);
        break;
    default:
        break;
    }
}
