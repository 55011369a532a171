/*
 * text.c - see text.h.
 */
#include "text.h"

#include "common/random.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *path, const char *what) __attribute__((noreturn));

static void
fail(const char *path, const char *what)
{
    fprintf(stderr, "chargpt: %s: %s\n", path, what);
    exit(1);
}

static unsigned char *
read_file(const char *path, size_t *count_p)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail(path, strerror(errno));
    unsigned char *bytes = NULL;
    size_t count = 0, room = 0, got;
    do {
        room = room > 0 ? 2 * room : (size_t)1 << 20;
        bytes = realloc(bytes, room);
        if (bytes == NULL)
            fail(path, "out of host memory");
        got = fread(bytes + count, 1, room - count, file);
        count += got;
    } while (count == room);
    if (ferror(file))
        fail(path, strerror(errno));
    fclose(file);
    *count_p = count;
    return bytes;
}

void
text_load(const char *path, size_t context, struct text *text)
{
    size_t count;
    *text = (struct text){.tokens = read_file(path, &count)};
    text->validation_count = count / 10;
    text->train_count = count - text->validation_count;
    if (text->validation_count <= context) {
        char what[128];
        snprintf(what, sizeof(what), "%zu characters are too few: a --context of %zu needs at least %zu", count,
                 context, 10 * (context + 1));
        fail(path, what);
    }

    int occurs[256] = {0}, token[256];
    for (size_t i = 0; i < count; ++i)
        occurs[text->tokens[i]] = 1;
    for (int c = 0; c < 256; ++c) {
        if (occurs[c]) {
            token[c] = text->vocabulary;
            text->characters[text->vocabulary++] = (unsigned char)c;
        }
    }
    for (size_t i = 0; i < count; ++i)
        text->tokens[i] = (unsigned char)token[text->tokens[i]];
}

void
text_free(struct text *text)
{
    free(text->tokens);
    *text = (struct text){0};
}

static void
take(const unsigned char *tokens, size_t context, int *inputs, int *targets)
{
    for (size_t t = 0; t < context; ++t) {
        inputs[t] = tokens[t];
        targets[t] = tokens[t + 1];
    }
}

void
text_batch(const struct text *text, uint64_t seed, uint64_t index, size_t first, size_t count, size_t context,
           int *inputs, int *targets)
{
    struct random random = random_seeded(seed * 0xd1342543de82ef95u + index);
    for (size_t i = 0; i < first + count; ++i) {
        size_t place = random_below(&random, text->train_count - context);
        if (i >= first)
            take(text->tokens + place, context, inputs + (i - first) * context, targets + (i - first) * context);
    }
}

void
text_validation(const struct text *text, size_t total, size_t first, size_t count, size_t context, int *inputs,
                int *targets)
{
    const size_t last = text->validation_count - context - 1; /* the last place where a sequence may begin */
    for (size_t i = 0; i < count; ++i) {
        size_t place = text->train_count + (size_t)((double)last * (double)(first + i) / (double)total);
        take(text->tokens + place, context, inputs + i * context, targets + i * context);
    }
}
