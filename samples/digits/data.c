/*
 * data.c - see data.h.
 */
#include "data.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS = IMAGE_PIXELS + 1, PIXEL_MAX = 16 };

/* The split does not follow --seed: every run is tested on the same images. */
static const uint64_t SPLIT_SEED = 1998;

static void fail(const char *path, size_t line, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));

/* Ends the program with "digits: file:line: what"; line 0 stands for the whole file. */
static void
fail(const char *path, size_t line, const char *format, ...)
{
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    if (line > 0)
        fprintf(stderr, "digits: %s:%zu: %s\n", path, line, what);
    else
        fprintf(stderr, "digits: %s: %s\n", path, what);
    exit(1);
}

static void *
allocate(size_t count, size_t bytes)
{
    void *memory = calloc(count > 0 ? count : 1, bytes);
    if (memory == NULL) {
        fprintf(stderr, "digits: out of host memory (%zu items of %zu bytes)\n", count, bytes);
        exit(1);
    }
    return memory;
}

static struct data
data_allocate(size_t count)
{
    return (struct data){
        .pixels = allocate(count * IMAGE_PIXELS, sizeof(float)),
        .labels = allocate(count, sizeof(int)),
        .count = count,
    };
}

/* Reads one line's 65 numbers into values[]. */
static void
parse_line(const char *path, size_t line, const char *text, int values[FIELDS])
{
    const char *at = text;
    for (int field = 0; field < FIELDS; ++field) {
        char *end;
        errno = 0;
        long value = strtol(at, &end, 10);
        if (end == at && *at == '\0')
            fail(path, line, "the line ends after %d of %d numbers", field, FIELDS);
        if (end == at)
            fail(path, line, "field %d of %d is not a number: \"%.12s\"", field + 1, FIELDS, at);
        long limit = field < IMAGE_PIXELS ? PIXEL_MAX : CLASSES - 1;
        if (errno != 0 || value < 0 || value > limit)
            fail(path, line, "number %d of %d is %.*s, allowed is 0 to %ld", field + 1, FIELDS, (int)(end - at), at,
                 limit);
        values[field] = (int)value;

        at = end;
        if (field + 1 == FIELDS)
            break;
        if (*at == '\0')
            fail(path, line, "the line ends after %d of %d numbers", field + 1, FIELDS);
        if (*at != ',')
            fail(path, line, "expected a comma after number %d of %d, found \"%.12s\"", field + 1, FIELDS, at);
        ++at;
    }
    if (*at != '\0')
        fail(path, line, "expected the end of the line after %d numbers, found \"%.12s\"", FIELDS, at);
}

/* Reads the whole file in its order. */
static struct data
read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    if (file == NULL)
        fail(path, 0, "cannot open: %s", strerror(errno));

    struct data all = {0};
    size_t room = 0, line = 0, text_bytes = 0;
    char *text = NULL;
    ssize_t length;
    while ((length = getline(&text, &text_bytes, file)) >= 0) {
        ++line;
        if (strlen(text) != (size_t)length)
            fail(path, line, "the line holds a zero byte; is this a text file?");
        text[strcspn(text, "\r\n")] = '\0';

        int values[FIELDS];
        parse_line(path, line, text, values);
        if (all.count == room) {
            room = room > 0 ? 2 * room : 1024;
            all.pixels = realloc(all.pixels, room * IMAGE_PIXELS * sizeof(float));
            all.labels = realloc(all.labels, room * sizeof(int));
            if (all.pixels == NULL || all.labels == NULL)
                fail(path, line, "out of host memory");
        }
        for (size_t i = 0; i < IMAGE_PIXELS; ++i)
            all.pixels[all.count * IMAGE_PIXELS + i] = (float)values[i] / PIXEL_MAX;
        all.labels[all.count++] = values[IMAGE_PIXELS];
    }
    if (ferror(file))
        fail(path, line + 1, "cannot read: %s", strerror(errno));
    free(text);
    fclose(file);
    return all;
}

void
data_load(const char *path, struct data *train, struct data *test)
{
    struct data all = read_file(path);
    size_t train_count = all.count * 4 / 5;
    if (train_count == 0)
        fail(path, 0, "holds %zu images, at least 2 are needed", all.count);

    size_t *order = allocate(all.count, sizeof(*order));
    for (size_t i = 0; i < all.count; ++i)
        order[i] = i;
    struct random random = random_seeded(SPLIT_SEED);
    data_shuffle(order, all.count, &random);

    *train = data_allocate(train_count);
    *test = data_allocate(all.count - train_count);
    data_gather(&all, order, train->count, train->pixels, train->labels);
    data_gather(&all, order + train->count, test->count, test->pixels, test->labels);
    free(order);
    data_free(&all);
}

void
data_free(struct data *data)
{
    free(data->pixels);
    free(data->labels);
    *data = (struct data){0};
}

void
data_shuffle(size_t *order, size_t count, struct random *random)
{
    for (size_t i = count; i > 1; --i) {
        size_t other = random_below(random, i);
        size_t kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
}

void
data_gather(const struct data *data, const size_t *order, size_t count, float *pixels, int *labels)
{
    for (size_t i = 0; i < count; ++i) {
        memcpy(pixels + i * IMAGE_PIXELS, data->pixels + order[i] * IMAGE_PIXELS, IMAGE_PIXELS * sizeof(float));
        labels[i] = data->labels[order[i]];
    }
}
