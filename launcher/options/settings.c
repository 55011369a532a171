/*
 * settings.c - options in their other two forms: variables DDPRUN_<NAME> of the environment, and members of a JSON
 * file.
 *
 *     DDPRUN_BUCKET_MB=10                           for --bucket-mb 10; "1" and "0" for options without a value
 *     { "bucket-mb": 10, "verify": true }           numbers and strings; true and false for options without a value
 *     { "env": { "NCCL_DEBUG": "WARN" } }           variables for the ranks
 *
 * The file is the one that --config names, or else $XDG_CONFIG_HOME/ddprun/config.json (~/.config where the variable is
 * not set). The current folder is never searched: it may be another user's.
 */
#include "launcher/common/xcalloc.h"
#include "launcher/options/input_file.h"
#include "launcher/options/option_table.h"

#include "base/message.h"
#include "base/protocol.h"

#include <ctype.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char advice[] = "fix it, or name another by --config";

void
settings_variable_name(const char *option, char *name, size_t bytes)
{
    snprintf(name, bytes, "DDPRUN_%s", option);
    for (char *p = name; *p != '\0'; ++p)
        *p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
}

static bool
is_switch_value(const char *value)
{
    return strcmp(value, "0") == 0 || strcmp(value, "1") == 0;
}

/* `where` names the setting in messages. */
static bool
apply(struct options *options, const struct option_row *row, const char *value, const char *where, struct error *error)
{
    if (row->argument == NULL && !is_switch_value(value))
        return error_set(error, DDPRUN_EXIT_USAGE, "%s: '%s' is neither on nor off; write 1 or 0", where, value);
    struct error inner;
    if (!option_take(row, options, "", option_keep(options, value), &inner))
        return error_set(error, DDPRUN_EXIT_USAGE, "%s: %.1500s", where, inner.text);
    if (strcmp(row->name, "ranks") == 0)
        options->ranks_setting = option_keep(options, where);
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

/* How a suggestion names the option: `setting`, the form of it that was looked for, or, where it has none, as on the
 * command line. */
static const char *
place_of(const char *option, const char *setting, char *text, size_t bytes)
{
    const struct option_row *row = option_row_named(option);
    if ((row->flags & COMMAND_LINE_ONLY) == 0)
        return setting;
    snprintf(text, bytes, "--%s, on the command line", option);
    return text;
}

/*
 * A variable that is one or two letters away from a setting, or names an option that is not a setting, would be
 * ignored without a message. Other variables beginning with DDPRUN_ may belong to any program: the version of an image,
 * the parameters of tests.
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
        const struct option_row *row = option_row_named(name);
        if (row != NULL && row->kind != OPTION_ANSWER && (row->flags & COMMAND_LINE_ONLY) != 0)
            return error_set(error, DDPRUN_EXIT_USAGE,
                             "%.*s, in the environment, has no effect: --%s is for the command line only", length,
                             *entry, row->name);
        const char *near = row == NULL && strlen(name) > 4 ? option_nearest(&ddprun_command, name, 2) : NULL;
        if (near == NULL)
            continue;
        char meant[64], where[64];
        settings_variable_name(near, meant, sizeof(meant));
        return error_set(error, DDPRUN_EXIT_USAGE, "%.*s, in the environment, is not a setting; did you mean %s?",
                         length, *entry, place_of(near, meant, where, sizeof(where)));
    }
    return true;
}

void
settings_warn_unknown(void)
{
    static const char *const others[] = {"restart", "soak", "mutant"}; /* what ranks read, and tests */
    for (char **entry = environ; *entry != NULL; ++entry) {
        char name[64], meant[64];
        bool known = !option_name_of(*entry, name, sizeof(name)) || option_row_named(name) != NULL ||
                     strncmp(name, "test-", 5) == 0;
        for (size_t i = 0; !known && i < sizeof(others) / sizeof(others[0]); ++i)
            known = strcmp(name, others[i]) == 0;
        if (known)
            continue;
        settings_variable_name(option_nearest(&ddprun_command, name, sizeof(name)), meant, sizeof(meant));
        message_line("%.*s, in the environment, is not a setting, and has no effect; the nearest one is %s",
                     (int)strcspn(*entry, "="), *entry, meant);
    }
}

static bool
apply_environment(struct options *options, struct error *error)
{
    if (!refuse_mistyped(error))
        return false;
    for (const struct option_row *row = option_rows; row->name != NULL; ++row) {
        if ((row->flags & COMMAND_LINE_ONLY) != 0)
            continue;
        char name[64];
        settings_variable_name(row->name, name, sizeof(name));
        const char *value = getenv(name);
        if (value != NULL && value[0] != '\0' && !apply(options, row, value, name, error))
            return false;
    }
    return true;
}

/* ---- the file ---- */

/* The user's own file, malloc'ed; NULL: there is no such place. */
static char *
own_file(void)
{
    const char *folder = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (folder != NULL && folder[0] == '/')
        return xasprintf("%s/ddprun/config.json", folder);
    return home != NULL && home[0] == '/' ? xasprintf("%s/.config/ddprun/config.json", home) : NULL;
}

static bool
unknown_member(const char *file, const char *member, struct error *error)
{
    const char *nearest = option_nearest(&ddprun_command, member, option_name_slack(member));
    if (nearest == NULL)
        return error_set(error, DDPRUN_EXIT_USAGE, "%s: \"%s\" is not a setting; ddprun --help-all lists the settings",
                         file, member);
    char quoted[64], where[64];
    snprintf(quoted, sizeof(quoted), "\"%s\"", nearest);
    return error_set(error, DDPRUN_EXIT_USAGE, "%s: \"%s\" is not a setting; did you mean %s?", file, member,
                     place_of(nearest, quoted, where, sizeof(where)));
}

/* Of the options only --env may be given again, and has a name in each of its values. */
static bool
takes_members(const struct option_row *row)
{
    return strcmp(row->name, "env") == 0;
}

static const char *
kind_of(struct json_object *value)
{
    switch (json_object_get_type(value)) {
    case json_type_null:
        return "null";
    case json_type_boolean:
        return json_object_get_boolean(value) ? "true" : "false";
    case json_type_object:
        return "an object";
    case json_type_array:
        return "an array";
    default:
        return "something else";
    }
}

/* What a setting can be: "wants ...". */
static const char *
wanted_of(const struct option_row *row, char *text, size_t bytes)
{
    if (row->argument == NULL)
        return "wants true or false";
    if (takes_members(row))
        return "wants an object, {\"NAME\": \"value\", ...}";
    snprintf(text, bytes, "wants a number or a string (%s)", row->argument);
    return text;
}

/* The text of a number or a string; NULL with an error: `value` is neither, or no string of C's. `wanted`: what
 * messages say that `where` can be. */
static const char *
text_of(struct json_object *value, const char *where, const char *wanted, struct error *error)
{
    switch (json_object_get_type(value)) {
    case json_type_int:
    case json_type_double:
        return json_object_get_string(value);
    case json_type_string:
        if (strlen(json_object_get_string(value)) == (size_t)json_object_get_string_len(value))
            return json_object_get_string(value);
        error_set(error, DDPRUN_EXIT_USAGE, "%s holds a \\u0000, which would end it; leave that out", where);
        return NULL;
    default:
        error_set(error, DDPRUN_EXIT_USAGE, "%s %s, and gets %s", where, wanted, kind_of(value));
        return NULL;
    }
}

/* A member of "env". */
static bool
apply_variable(struct options *options, const struct option_row *row, const char *name, struct json_object *value,
               const char *where, struct error *error)
{
    if (name[0] == '\0' || strchr(name, '=') != NULL)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "%s: \"%s\" is not the name of a variable; write \"NAME\": \"value\"", where, name);
    char *place = xasprintf("%s: \"%s\"", where, name);
    const char *text = text_of(value, place, "wants a string or a number", error);
    free(place);
    if (text == NULL)
        return false;
    char *both = xasprintf("%s=%s", name, text);
    bool ok = apply(options, row, both, where, error);
    free(both);
    return ok;
}

/* { "NAME": "value", ... } is as several times NAME=value. */
static bool
apply_each(struct options *options, const struct option_row *row, struct json_object *members, const char *where,
           struct error *error)
{
    bool ok = true;
    json_object_object_foreach(members, name, value)
    {
        ok = ok && apply_variable(options, row, name, value, where, error);
    }
    return ok;
}

static bool
apply_value(struct options *options, const struct option_row *row, struct json_object *value, const char *where,
            struct error *error)
{
    if (takes_members(row) && json_object_is_type(value, json_type_object))
        return apply_each(options, row, value, where, error);
    if (row->argument == NULL && json_object_is_type(value, json_type_boolean))
        return apply(options, row, json_object_get_boolean(value) ? "1" : "0", where, error);

    char wanted[64];
    const char *text = text_of(value, where, wanted_of(row, wanted, sizeof(wanted)), error);
    return text != NULL && apply(options, row, text, where, error);
}

static bool
apply_member(struct options *options, const char *file, const char *member, struct json_object *value,
             struct error *error)
{
    const struct option_row *row = option_row_named(member);
    if (row == NULL)
        return unknown_member(file, member, error);
    if ((row->flags & COMMAND_LINE_ONLY) != 0)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "%s: \"%s\" is for the command line only; write --%s there, and leave it out here", file,
                         member, member);

    char *where = xasprintf("%s: \"%s\"", file, member);
    bool ok = apply_value(options, row, value, where, error);
    free(where);
    return ok;
}

static int
line_of(const char *text, size_t offset)
{
    int line = 1;
    for (size_t i = 0; i < offset; ++i)
        line += text[i] == '\n';
    return line;
}

/*
 * JSON by the letter: what follows the settings, or a comma too many, may hide a setting that the user counts on. A
 * NUL follows the text. NULL is JSON's null; release with json_object_put().
 */
static bool
parse(const char *text, size_t length, const char *file, struct json_object **settings_p, struct error *error)
{
    struct json_tokener *tokener = json_tokener_new();
    if (tokener == NULL)
        return error_set(error, DDPRUN_EXIT_FAILURE, "out of memory, for the settings in %.512s; free some", file);
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
    *settings_p = json_tokener_parse_ex(tokener, text, (int)length + 1); /* with the NUL, which is their end */
    enum json_tokener_error cause = json_tokener_get_error(tokener);
    size_t end = json_tokener_get_parse_end(tokener);
    json_tokener_free(tokener);
    if (cause == json_tokener_success && end == length)
        return true;
    json_object_put(*settings_p);
    const char *why = cause == json_tokener_success ? "more follows" : json_tokener_error_desc(cause);
    return error_set(error, DDPRUN_EXIT_USAGE, "cannot read the settings in %.512s, line %d: %s; %s", file,
                     line_of(text, end), why, advice);
}

/* json-c cuts names of members at a NUL, so that one could pass for another: none may hold one. `text` has been parsed:
 * backslashes are in strings, and what follows each is whole. */
static bool
holds_no_nul(const char *text, const char *file, struct error *error)
{
    for (const char *p = strchr(text, '\\'); p != NULL; p = strchr(p + 2, '\\')) {
        if (strncmp(p, "\\u0000", 6) == 0)
            return error_set(error, DDPRUN_EXIT_USAGE,
                             "cannot read the settings in %.512s, line %d: a string holds a \\u0000; %s", file,
                             line_of(text, (size_t)(p - text)), advice);
    }
    return true;
}

static bool
apply_file(struct options *options, const char *file, struct error *error)
{
    char *text;
    size_t length;
    if (!input_file_read(file, "a file of settings", advice, &text, &length, error))
        return false;
    struct json_object *settings = NULL;
    if (!parse(text, length, file, &settings, error)) {
        free(text);
        return false;
    }
    bool ok = json_object_is_type(settings, json_type_object) ||
              error_set(error, DDPRUN_EXIT_USAGE, "%s holds no settings: {\"name\": value, ...} is expected", file);
    if (ok) {
        json_object_object_foreach(settings, member, value)
        {
            ok = ok && apply_member(options, file, member, value, error);
        }
    }
    ok = ok && holds_no_nul(text, file, error); /* values have been looked at, by name */
    free(text);
    json_object_put(settings);
    return ok;
}

bool
settings_apply(struct options *options, struct error *error)
{
    if (!apply_environment(options, error))
        return false;
    if (options->config != NULL)
        return apply_file(options, options->config, error);
    char *own = own_file();
    bool ok = own == NULL || access(own, F_OK) != 0 || apply_file(options, own, error);
    free(own);
    return ok;
}
