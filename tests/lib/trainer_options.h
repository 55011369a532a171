/*
 * trainer_options.h - the command line of a trainer as a table: `--name value`, one row for each name. C++, for the
 * trainers of all tests; includes nothing of the product.
 *
 *     take_options(argc, argv, 1, {{"--steps", &steps}, {"--rate", &rate}, {"--save", &save_to}});
 *
 * What a row points to keeps its value where the option is not given, and its type says how the text is read. In a
 * row's name "_" stands for "-", too: OPTION(options, hang_after) is {"--hang_after", &options.hang_after}.
 */
#ifndef DDPRUN_TESTS_TRAINER_OPTIONS_H
#define DDPRUN_TESTS_TRAINER_OPTIONS_H

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

/* Ends the program, with exit code 2, unless the text is a whole number from `least` to `most`. */
static inline long long
whole_number(const char *text, long long least, long long most)
{
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    const bool is_number = errno == 0 && end != text && *end == '\0';
    if (is_number && value >= least && value <= most)
        return value;
    fprintf(stderr, "%s is no whole number from %lld to %lld\n", text, least, most);
    exit(2);
}

struct option_row {
    const char *name;
    void *value;
    void (*read)(void *value, const char *text);

    option_row(const char *name, int *value) : name(name), value(value)
    {
        read = [](void *to, const char *text) { *(int *)to = atoi(text); };
    }
    option_row(const char *name, unsigned *value) : name(name), value(value)
    {
        read = [](void *to, const char *text) { *(unsigned *)to = (unsigned)strtoul(text, NULL, 10); };
    }
    option_row(const char *name, size_t *value) : name(name), value(value)
    {
        read = [](void *to, const char *text) { *(size_t *)to = strtoul(text, NULL, 10); };
    }
    option_row(const char *name, float *value) : name(name), value(value)
    {
        read = [](void *to, const char *text) { *(float *)to = (float)atof(text); };
    }
    option_row(const char *name, double *value) : name(name), value(value)
    {
        read = [](void *to, const char *text) { *(double *)to = atof(text); };
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

/* Words from `first` on. Ends the program, with exit code 2 and the names that there are, where one is none of them. */
static inline void
take_options(int argc, char **argv, int first, const std::vector<option_row> &rows)
{
    for (int i = first; i < argc; i += 2) {
        const option_row *found = NULL;
        for (const option_row &row : rows)
            found = names_option(argv[i], row.name) ? &row : found;
        if (found != NULL && i + 1 < argc) {
            found->read(found->value, argv[i + 1]);
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
