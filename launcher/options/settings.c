/*
 * settings.c - options in their other form, variables DDPRUN_<NAME> of the environment:
 *
 *     DDPRUN_BUCKET_MB=10                           for --bucket-mb 10; "1" and "0" for options without a value
 */
#include "launcher/options/option_table.h"

#include "base/protocol.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void
settings_variable_name(const char *option, char *name, size_t bytes)
{
    snprintf(name, bytes, "DDPRUN_%s", option);
    for (char *p = name; *p != '\0'; ++p)
        *p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
}

/* The command line goes before the environment. */
static bool
is_given(const struct options *options, const struct option_row *row)
{
    bool is = false;
    for (size_t i = 0; i < options->given.count && !is; ++i)
        is = option_row_of_given(options->given.list[i]) == row;
    return is;
}

static bool
is_switch_value(const char *value)
{
    return strcmp(value, "0") == 0 || strcmp(value, "1") == 0;
}

static bool
apply(struct options *options, const struct option_row *row, const char *value, const char *variable,
      struct error *error)
{
    if (row->argument == NULL && !is_switch_value(value))
        return error_set(error, DDPRUN_EXIT_USAGE, "%s: '%s' is neither on nor off; write 1 or 0", variable, value);
    struct error inner;
    if (!option_take(row, options, "", option_keep(options, value), &inner))
        return error_set(error, DDPRUN_EXIT_USAGE, "%s: %.1500s", variable, inner.text);
    options->has_settings = true;
    return true;
}

/* "DDPRUN_BUCKET_MB=10" gives "bucket-mb"; false: not one of ddprun's variables. */
static bool
option_name_of(const char *entry, char *name, size_t bytes)
{
    size_t length = strcspn(entry, "=");
    if (strncmp(entry, "DDPRUN_", 7) != 0 || length - 7 >= bytes)
        return false;
    for (size_t i = 7; i < length; ++i)
        name[i - 7] = entry[i] == '_' ? '-' : (char)tolower((unsigned char)entry[i]);
    name[length - 7] = '\0';
    return true;
}

/* How a suggestion names the option: as a variable, or, where it has none, as on the command line. */
static void
suggest(const char *option, char *text, size_t bytes)
{
    if ((option_row_named(&ddprun_command, option)->flags & COMMAND_LINE_ONLY) == 0)
        settings_variable_name(option, text, bytes);
    else
        snprintf(text, bytes, "--%s, on the command line", option);
}

/*
 * A variable that is one or two letters away from a setting, or names an option that is not a setting or is gone, would
 * be ignored without a message. Other variables beginning with DDPRUN_ may belong to any program: the version of an
 * image, the parameters of tests.
 */
static bool
refuse_mistyped(struct error *error)
{
    if (getenv(DDPRUN_ENV_JOB_DIR) != NULL) /* inside a rank, which has ddprun's own variables */
        return true;
    for (char **entry = environ; *entry != NULL; ++entry) {
        char name[64];
        int length = (int)strcspn(*entry, "=");
        if (!option_name_of(*entry, name, sizeof(name)))
            continue;
        const struct option_row *row = option_row_named(&ddprun_command, name);
        if (row != NULL && row->kind != OPTION_ANSWER && (row->flags & COMMAND_LINE_ONLY) != 0)
            return error_set(error, DDPRUN_EXIT_USAGE,
                             "%.*s, in the environment, has no effect: --%s is for the command line only", length,
                             *entry, row->name);
        if (option_gone(name) != NULL)
            return error_set(error, DDPRUN_EXIT_USAGE, "%.*s, in the environment: --%s is gone: %s; unset it", length,
                             *entry, name, option_gone(name));
        const char *near = row == NULL && strlen(name) > 4 ? option_nearest(&ddprun_command, name, 2) : NULL;
        if (near == NULL)
            continue;
        char meant[64];
        suggest(near, meant, sizeof(meant));
        return error_set(error, DDPRUN_EXIT_USAGE, "%.*s, in the environment, is not a setting; did you mean %s?",
                         length, *entry, meant);
    }
    return true;
}

bool
settings_apply(struct options *options, struct error *error)
{
    bool ok = refuse_mistyped(error);
    for (const struct option_row *row = option_rows; row->name != NULL && ok; ++row) {
        if ((row->flags & COMMAND_LINE_ONLY) != 0 || is_given(options, row))
            continue;
        char name[64];
        settings_variable_name(row->name, name, sizeof(name));
        const char *value = getenv(name);
        if (value == NULL && strcmp(row->name, "failure-report") == 0)
            value = getenv("DDPRUN_REPORT"); /* its earlier name */
        ok = value == NULL || value[0] == '\0' || apply(options, row, value, name, error);
    }
    return ok;
}
