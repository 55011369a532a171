/* tool_options.c - see tool_options.h. */
#include "tools/common/tool_options.h"

#include "launcher/options/option_table.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool
command_begin(const struct command *command, char **words, void *target, char ***rest_p, int *exit_code)
{
    struct error error;
    int argc = 0, rest = 0;
    while (words[argc] != NULL)
        ++argc;
    enum options_result result = command_parse(command, argc, words, target, &rest, &error);
    if (result == OPTIONS_HELP) {
        command_print_help(stdout, command);
        *exit_code = close_stdout(stdout);
        return false;
    }
    if (result == OPTIONS_RUN && command->wants != NULL && words[rest] == NULL) {
        result = OPTIONS_BAD;
        error_set(&error, DDPRUN_EXIT_USAGE, "no %s given, after %s; write for example: %s (see ddprun %s --help)",
                  command->wants, command->name, command->example, command->name);
    }
    if (result != OPTIONS_RUN) {
        message_line("%s", error.text);
        *exit_code = error.exit_code;
        return false;
    }
    *rest_p = words + rest;
    return true;
}

int
command_end(bool ok, const struct error *error)
{
    if (ok)
        return close_stdout(stdout);
    message_line("%s", error->text);
    return error->exit_code;
}

bool
tool_wants_colour(void)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(STDOUT_FILENO) && (no_color == NULL || no_color[0] == '\0') && term != NULL &&
           strcmp(term, "dumb") != 0;
}

/* ---- options by their names ---- */

static bool
is_among(const struct option_row *row, const char *const *names)
{
    while (names != NULL && *names != NULL && strcmp(row->name, *names) != 0)
        ++names;
    return names != NULL && *names != NULL;
}

char *
options_given(const struct options *options, const char *const *names)
{
    for (size_t i = 0; i < options->given.count; ++i) {
        const char *given = options->given.list[i];
        if (is_among(option_row_of_given(given), names))
            return xasprintf("%.*s", (int)strcspn(given, "="), given);
    }
    return NULL;
}

char *
options_set(const struct options *options, const char *const *names)
{
    for (const struct option_row *row = option_rows; row->name != NULL; ++row) {
        if (is_among(row, names) && option_is_set(row, options))
            return xasprintf("--%s", row->name);
    }
    return NULL;
}

bool
options_refuse(char *option, const char *command, struct error *error)
{
    if (option != NULL)
        error_set(error, DDPRUN_EXIT_USAGE, "%s and %s contradict each other; leave one out", option, command);
    free(option);
    return option == NULL;
}

/* "--gpus=2,5" is "--gpus=2" for one rank; another option stays as it is. malloc'ed. */
static char *
first_gpu_alone(const char *given)
{
    static const char begin[] = "--gpus=";
    char *word = xstrdup(given);
    if (strncmp(word, begin, strlen(begin)) != 0)
        return word;
    char *first = word + strlen(begin);
    first[strcspn(first, isdigit((unsigned char)*first) ? ",-" : ",")] = '\0'; /* a UUID has dashes */
    return word;
}

void
options_hand_on_but(const struct options *options, const char *const *but, bool one_rank, struct word_list *words)
{
    for (size_t i = 0; i < options->given.count; ++i) {
        const char *given = options->given.list[i];
        if ((option_row_of_given(given)->flags & NOT_HANDED_ON) == 0 && !is_among(option_row_of_given(given), but))
            word_list_add(words, one_rank ? first_gpu_alone(given) : xstrdup(given));
    }
}

void
options_unset_settings(const char *const *names)
{
    for (const struct option_row *row = option_rows; row->name != NULL; ++row) {
        char variable[64];
        settings_variable_name(row->name, variable, sizeof(variable));
        if ((row->flags & COMMAND_LINE_ONLY) == 0 && ((row->flags & NOT_HANDED_ON) != 0 || is_among(row, names)))
            unsetenv(variable);
    }
}
