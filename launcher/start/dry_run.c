/* dry_run.c - see environment.h. */
#include "launcher/start/environment.h"

/* A word as a shell reads it back: plain where that is enough, else in single quotes. */
static void
print_word(FILE *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%^";
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        fputs(word, out);
        return;
    }
    fputc('\'', out);
    for (; *word != '\0'; ++word) {
        if (*word == '\'')
            fputs("'\\''", out);
        else
            fputc(*word, out);
    }
    fputc('\'', out);
}

static void
print_rank(FILE *out, const struct rank_settings *settings, const struct program *program,
           const struct rank_place *place, int index)
{
    char **variables = environment_for_rank(environ, settings, index);
    char **arguments = environment_arguments(settings, index);

    char *where = placement_describe(place);
    fprintf(out, "# rank %d, %s\n", settings->place.first_rank + index, where);
    free(where);
    if (place->list != NULL)
        fprintf(out, "taskset -c %s ", place->list);
    fputs("env", out);
    for (char **entry = environ; *entry != NULL; ++entry) {
        if (environment_get(variables, *entry) == NULL)
            fprintf(out, " -u %.*s", (int)strcspn(*entry, "="), *entry);
    }
    for (char **entry = variables; *entry != NULL; ++entry) {
        const char *before = environment_get(environ, *entry);
        if (before != NULL && strcmp(before, strchr(*entry, '=') + 1) == 0)
            continue;
        fputc(' ', out);
        print_word(out, *entry);
    }
    fputc(' ', out);
    print_word(out, program->path);
    for (char **argument = arguments + 1; *argument != NULL; ++argument) {
        fputc(' ', out);
        print_word(out, *argument);
    }
    fputc('\n', out);
    words_free(variables);
    words_free(arguments);
}

int
dry_run_print(FILE *out, const struct rank_settings *settings, const struct program *program,
              const struct placement *placement)
{
    fprintf(out, "# binding of ranks: %s (%s)\n", placement->what, placement->why);
    for (int i = 0; i < settings->place.rank_count; ++i)
        print_rank(out, settings, program, &placement->ranks[i], i);
    return close_stdout(out);
}
