/*
 * parameter_file.c - see parameter_file.h.
 */
#include "parameter_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_LINE "parameters 1\n"

/* Far above any sample; keeps a damaged header from asking for all memory. */
static const size_t COUNT_LIMIT = (size_t)1 << 32;

static int
complain(const char *path, const char *what)
{
    fprintf(stderr, "parameters: %s: %s\n", path, what);
    return -1;
}

/* The path with its first "%d" replaced, to be freed; NULL without memory. */
static char *
expand_path(const char *path, int number)
{
    const char *mark = strstr(path, "%d");
    char *expanded = NULL;
    int length = mark == NULL ? asprintf(&expanded, "%s", path)
                              : asprintf(&expanded, "%.*s%d%s", (int)(mark - path), path, number, mark + 2);
    return length < 0 ? NULL : expanded;
}

static void
write_all(FILE *file, const struct parameter *parameters, size_t count)
{
    fputs(FIRST_LINE, file);
    for (size_t i = 0; i < count; ++i)
        fprintf(file, "%s %zu\n", parameters[i].name, parameters[i].count);
    fputc('\n', file);
    for (size_t i = 0; i < count; ++i)
        fwrite(parameters[i].values, sizeof(float), parameters[i].count, file);
}

int
parameter_file_write(const char *path, int number, const struct parameter *parameters, size_t count)
{
    char *target = expand_path(path, number);
    char *temporary = NULL;
    int result = -1;
    if (target == NULL || asprintf(&temporary, "%s.tmp%ld", target, (long)getpid()) < 0) {
        temporary = NULL; /* asprintf() leaves it undefined */
        complain(path, "out of host memory");
        goto free_names;
    }
    FILE *file = fopen(temporary, "wb");
    if (file == NULL) {
        complain(temporary, strerror(errno));
        goto free_names;
    }
    write_all(file, parameters, count);
    int bad = ferror(file);
    bad |= fclose(file);
    if (bad || rename(temporary, target) != 0) {
        complain(target, strerror(errno));
        unlink(temporary);
        goto free_names;
    }
    result = 0;
free_names:
    free(temporary);
    free(target);
    return result;
}

/* Reads "name count" lines up to the empty one. */
static int
read_header(const char *path, FILE *file, struct parameter **parameters_p, size_t *count_p)
{
    char line[128];
    if (fgets(line, sizeof(line), file) == NULL || strcmp(line, FIRST_LINE) != 0)
        return complain(path, "does not begin with \"parameters 1\"; is it a file saved by a sample?");

    while (fgets(line, sizeof(line), file) != NULL) {
        if (strcmp(line, "\n") == 0)
            return 0;
        struct parameter parameter = {.values = NULL};
        char end;
        if (sscanf(line, "%31s %zu%c", parameter.name, &parameter.count, &end) != 3 || end != '\n' ||
            parameter.count == 0 || parameter.count > COUNT_LIMIT)
            return complain(path, "damaged header");
        struct parameter *grown = realloc(*parameters_p, (*count_p + 1) * sizeof(parameter));
        if (grown == NULL)
            return complain(path, "out of host memory");
        *parameters_p = grown;
        grown[(*count_p)++] = parameter;
    }
    return complain(path, "the header has no end");
}

static int
read_values(const char *path, FILE *file, struct parameter *parameters, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        parameters[i].values = malloc(parameters[i].count * sizeof(float));
        if (parameters[i].values == NULL)
            return complain(path, "out of host memory");
        if (fread(parameters[i].values, sizeof(float), parameters[i].count, file) != parameters[i].count)
            return complain(path, "ends before its last value");
    }
    if (fgetc(file) != EOF)
        return complain(path, "has more bytes than its header says");
    return 0;
}

int
parameter_file_read(const char *path, struct parameter **parameters_p, size_t *count_p)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return complain(path, strerror(errno));

    struct parameter *parameters = NULL;
    size_t count = 0;
    int result = read_header(path, file, &parameters, &count);
    if (result == 0)
        result = read_values(path, file, parameters, count);
    fclose(file);
    if (result != 0) {
        parameter_file_free(parameters, count);
        return result;
    }
    *parameters_p = parameters;
    *count_p = count;
    return 0;
}

void
parameter_file_free(struct parameter *parameters, size_t count)
{
    for (size_t i = 0; i < count; ++i)
        free(parameters[i].values);
    free(parameters);
}
