/*
 * settings.c - options in their other two forms: variables DDPRUN_<NAME> of the environment, and members of a JSON
 * file.
 *
 *     DDPRUN_BUCKET_MB=10                           for --bucket-mb 10; "1" and "0" for options without a value
 *     { "bucket-mb": 10, "verify": true }           numbers, strings, booleans
 *     { "env": { "NCCL_DEBUG": "WARN" } }           variables for the ranks
 *
 * The file is the one that --config names, or else $XDG_CONFIG_HOME/ddprun/config.json (~/.config where the variable is
 * not set). The current folder is never searched: it may be somebody else's.
 */
#include "launcher/memory.h"
#include "launcher/options/input_file.h"
#include "launcher/options/option_table.h"

#include "base/protocol.h"

#include <ctype.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char advice[] = "mend it, or name another by --config";

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
apply(struct options *options, const struct option_row *row, const char *value, const char *where,
      struct problem *problem)
{
    if (row->argument == NULL && !is_switch_value(value))
        return problem_set(problem, DDPRUN_EXIT_USAGE, "%s: '%s' is neither on nor off; write 1 or 0", where, value);
    struct problem inner;
    if (!row->take(options, option_keep(options, value), &inner))
        return problem_set(problem, DDPRUN_EXIT_USAGE, "%s: %.1500s", where, inner.text);
    if (strcmp(row->name, "ranks") == 0)
        options->ranks_setting = option_keep(options, where);
    return true;
}

/* "DDPRUN_BUCKET_MB=10" gives "bucket-mb"; false: no variable of ours. */
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
    if (row->take != NULL && !row->command_line_only)
        return setting;
    snprintf(text, bytes, "--%s, on the command line", option);
    return text;
}

/*
 * A variable that is one or two letters away from a setting, or names an option that is none, would be ignored without
 * a word. Others beginning with DDPRUN_ may be anybody's: the version of an image, what tests are told.
 */
static bool
refuse_mistyped(struct problem *problem)
{
    if (getenv(DDPRUN_ENV_JOB_DIR) != NULL) /* inside a rank, which has ddprun's own variables */
        return true;
    for (char **entry = environ; *entry != NULL; ++entry) {
        char name[64];
        int length = (int)strcspn(*entry, "=");
        if (!option_name_of(*entry, name, sizeof(name)))
            continue;
        const struct option_row *row = option_row_named(name);
        if (row != NULL && row->take != NULL && row->command_line_only)
            return problem_set(problem, DDPRUN_EXIT_USAGE,
                               "%.*s, in the environment, has no effect: --%s is for the command line only", length,
                               *entry, row->name);
        const char *near = row == NULL && strlen(name) > 4 ? option_nearest_name_within(name, 2) : NULL;
        if (near == NULL)
            continue;
        char meant[64], where[64];
        settings_variable_name(near, meant, sizeof(meant));
        return problem_set(problem, DDPRUN_EXIT_USAGE, "%.*s, in the environment, is no setting; did you mean %s?",
                           length, *entry, place_of(near, meant, where, sizeof(where)));
    }
    return true;
}

static bool
apply_environment(struct options *options, struct problem *problem)
{
    if (!refuse_mistyped(problem))
        return false;
    for (int i = 0; i < option_row_count; ++i) {
        const struct option_row *row = &option_rows[i];
        if (row->take == NULL || row->command_line_only)
            continue;
        char name[64];
        settings_variable_name(row->name, name, sizeof(name));
        const char *value = getenv(name);
        if (value != NULL && value[0] != '\0' && !apply(options, row, value, name, problem))
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
        return memory_format("%s/ddprun/config.json", folder);
    return home != NULL && home[0] == '/' ? memory_format("%s/.config/ddprun/config.json", home) : NULL;
}

static bool
unknown_member(const char *file, const char *member, struct problem *problem)
{
    const char *nearest = option_nearest_name(member);
    if (nearest == NULL)
        return problem_set(problem, DDPRUN_EXIT_USAGE, "%s: \"%s\" is no setting; ddprun --help-all lists the settings",
                           file, member);
    char quoted[64], where[64];
    snprintf(quoted, sizeof(quoted), "\"%s\"", nearest);
    return problem_set(problem, DDPRUN_EXIT_USAGE, "%s: \"%s\" is no setting; did you mean %s?", file, member,
                       place_of(nearest, quoted, where, sizeof(where)));
}

/* { "NAME": "value", ... } is as several times NAME=value. */
static bool
apply_each(struct options *options, const struct option_row *row, struct json_object *members, const char *where,
           struct problem *problem)
{
    bool ok = true;
    json_object_object_foreach(members, name, value)
    {
        char *both = memory_format("%s=%s", name, json_object_get_string(value));
        ok = ok && apply(options, row, both, where, problem);
        free(both);
    }
    return ok;
}

static bool
apply_member(struct options *options, const char *file, const char *member, struct json_object *value,
             struct problem *problem)
{
    const struct option_row *row = option_row_named(member);
    if (row == NULL)
        return unknown_member(file, member, problem);
    if (row->take == NULL || row->command_line_only)
        return problem_set(problem, DDPRUN_EXIT_USAGE,
                           "%s: \"%s\" is for the command line only; write --%s there, and leave it out here", file,
                           member, member);

    char *where = memory_format("%s: \"%s\"", file, member);
    bool ok = true;
    switch (json_object_get_type(value)) {
    case json_type_boolean:
        ok = apply(options, row, json_object_get_boolean(value) ? "1" : "0", where, problem);
        break;
    case json_type_int:
    case json_type_double:
    case json_type_string:
        ok = apply(options, row, json_object_get_string(value), where, problem);
        break;
    case json_type_object:
        ok = apply_each(options, row, value, where, problem);
        break;
    default:
        ok = problem_set(problem, DDPRUN_EXIT_USAGE, "%s is neither a number, a string, true nor false", where);
        break;
    }
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
 * JSON by the letter: what follows the settings, or a comma too many, may hide one that somebody counts on. A NUL
 * follows the text. NULL is JSON's null; release with json_object_put().
 */
static bool
parse(const char *text, size_t length, const char *file, struct json_object **settings_p, struct problem *problem)
{
    struct json_tokener *tokener = json_tokener_new();
    if (tokener == NULL)
        return problem_set(problem, DDPRUN_EXIT_FAILURE, "out of memory, for the settings in %.512s; free some", file);
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
    *settings_p = json_tokener_parse_ex(tokener, text, (int)length + 1); /* with the NUL, which is their end */
    enum json_tokener_error error = json_tokener_get_error(tokener);
    size_t end = json_tokener_get_parse_end(tokener);
    json_tokener_free(tokener);
    if (error == json_tokener_success && end == length)
        return true;
    json_object_put(*settings_p);
    const char *why = error == json_tokener_success ? "more follows" : json_tokener_error_desc(error);
    return problem_set(problem, DDPRUN_EXIT_USAGE, "cannot read the settings in %.512s, line %d: %s; %s", file,
                       line_of(text, end), why, advice);
}

static bool
apply_file(struct options *options, const char *file, struct problem *problem)
{
    char *text;
    size_t length;
    if (!input_file_read(file, "a file of settings", advice, &text, &length, problem))
        return false;
    struct json_object *settings = NULL;
    bool ok = parse(text, length, file, &settings, problem);
    free(text);
    if (!ok)
        return false;
    ok = json_object_is_type(settings, json_type_object) ||
         problem_set(problem, DDPRUN_EXIT_USAGE, "%s holds no settings: {\"name\": value, ...} is expected", file);
    if (ok) {
        json_object_object_foreach(settings, member, value)
        {
            ok = ok && apply_member(options, file, member, value, problem);
        }
    }
    json_object_put(settings);
    return ok;
}

bool
settings_apply(struct options *options, struct problem *problem)
{
    if (!apply_environment(options, problem))
        return false;
    if (options->config != NULL)
        return apply_file(options, options->config, problem);
    char *own = own_file();
    bool ok = own == NULL || access(own, F_OK) != 0 || apply_file(options, own, problem);
    free(own);
    return ok;
}
