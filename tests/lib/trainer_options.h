/*
 * trainer_options.h - the command line of a trainer as a table: `--name value`, one row for each name, or `--name`
 * where the row points to a bool. C++, for the trainers of all tests; includes nothing of the product.
 *
 *     take_options(argc, argv, 1, {{"--steps", &steps}, {"--rate", &rate}, {"--save", &save_to}});
 *
 * What a row points to keeps its value where the option is not given, and its type says how the text is read; what
 * cannot be read so ends the program (numbers.h). In a row's name "_" stands for "-", too: OPTION(options, hang_after)
 * is {"--hang_after", &options.hang_after}.
 */
#ifndef DDPRUN_TESTS_TRAINER_OPTIONS_H
#define DDPRUN_TESTS_TRAINER_OPTIONS_H

#include "numbers.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

struct option_row {
    const char *name;
    void *value;
    void (*read)(void *value, const char *text);
    bool has_value = true;

    option_row(const char *name, bool *value) : name(name), value(value), has_value(false)
    {
        read = [](void *to, const char *) { *(bool *)to = true; };
    }
    option_row(const char *name, int *value) : name(name), value(value)
    {
        read = [](void *to, const char *text) { *(int *)to = (int)whole_number(text, INT_MIN, INT_MAX); };
    }
    option_row(const char *name, unsigned *value) : name(name), value(value)
    {
        read = [](void *to, const char *text) { *(unsigned *)to = (unsigned)whole_number(text, 0, UINT_MAX); };
    }
    option_row(const char *name, size_t *value) : name(name), value(value)
    {
        read = [](void *to, const char *text) { *(size_t *)to = (size_t)whole_number(text, 0, LLONG_MAX); };
    }
    option_row(const char *name, float *value) : name(name), value(value)
    {
        read = [](void *to, const char *text) { *(float *)to = (float)real_number(text); };
    }
    option_row(const char *name, double *value) : name(name), value(value)
    {
        read = [](void *to, const char *text) { *(double *)to = real_number(text); };
    }
    option_row(const char *name, const char **value) : name(name), value(value)
    {
        read = [](void *to, const char *text) { *(const char **)to = text; };
    }
};

#define OPTION(of, member) option_row("--" #member, &of.member)

static inline bool
names_option(const char *word, const char *name)
{
    while (*word != '\0' && (*word == *name || (*word == '-' && *name == '_'))) {
        ++word;
        ++name;
    }
    return *word == *name;
}

/*
 * Words from `first` on; `take_word`, if it is given, says whether it has taken one that is no option. Ends the
 * program, with exit code 2 and the names that there are, where a word is none of them.
 */
static inline void
take_options(int argc, char **argv, int first, const std::vector<option_row> &rows,
             bool (*take_word)(const char *word) = NULL)
{
    for (int i = first; i < argc; ++i) {
        const option_row *found = NULL;
        for (const option_row &row : rows)
            found = names_option(argv[i], row.name) ? &row : found;
        if (found == NULL && take_word != NULL && take_word(argv[i]))
            continue;
        if (found != NULL && (!found->has_value || i + 1 < argc)) {
            i += found->has_value;
            found->read(found->value, argv[i]);
            continue;
        }
        fprintf(stderr, "%s: %s is no option, or has no value. There are:", argv[0], argv[i]);
        for (const option_row &row : rows)
            fprintf(stderr, " %s", row.name);
        fputc('\n', stderr);
        exit(2);
    }
}

#endif
