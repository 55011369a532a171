/*
 * text.c - see text.h.
 */
#include "text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("softgpu-cc: error: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

void
text_append(struct text *text, const char *bytes, size_t length)
{
    if (text->length + length + 1 > text->capacity) {
        text->capacity = 2 * (text->length + length + 32);
        text->data = memory_grow(text->data, text->capacity);
    }
    memcpy(text->data + text->length, bytes, length);
    text->length += length;
    text->data[text->length] = '\0';
}

void
text_append_string(struct text *text, const char *string)
{
    text_append(text, string, strlen(string));
}

static char *
format_v(const char *format, va_list args)
{
    char *string = NULL;
    if (vasprintf(&string, format, args) < 0) {
        complain("out of memory");
        exit(EXIT_FAILURE);
    }
    return string;
}

void
text_append_format(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *string = format_v(format, args);
    va_end(args);
    text_append_string(text, string);
    free(string);
}

void
text_free(struct text *text)
{
    free(text->data);
    *text = (struct text){0};
}

char *
text_format(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *string = format_v(format, args);
    va_end(args);
    return string;
}

void
list_add_length(struct list *list, const char *bytes, size_t length)
{
    if (list->count + 2 > list->capacity) {
        list->capacity = 2 * (list->count + 8);
        list->items = memory_grow(list->items, list->capacity * sizeof(*list->items));
    }
    char *copy = memory_grow(NULL, length + 1);
    memcpy(copy, bytes, length);
    copy[length] = '\0';
    list->items[list->count++] = copy;
    list->items[list->count] = NULL;
}

void
list_add(struct list *list, const char *string)
{
    list_add_length(list, string, strlen(string));
}

void
list_add_format(struct list *list, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *string = format_v(format, args);
    va_end(args);
    list_add(list, string);
    free(string);
}

void
list_add_all(struct list *list, const struct list *more)
{
    for (size_t i = 0; i < more->count; ++i)
        list_add(list, more->items[i]);
}

void
list_free(struct list *list)
{
    for (size_t i = 0; i < list->count; ++i)
        free(list->items[i]);
    free(list->items);
    *list = (struct list){0};
}

bool
list_has(const struct list *list, const char *string)
{
    for (size_t i = 0; i < list->count; ++i) {
        if (strcmp(list->items[i], string) == 0)
            return true;
    }
    return false;
}

void
list_add_commas(struct list *list, const char *pieces)
{
    struct text piece = {0};
    text_append(&piece, "", 0);
    bool in_quotes = false;
    for (const char *c = pieces;; ++c) {
        in_quotes ^= *c == '"';
        if ((*c == ',' && !in_quotes) || *c == '\0') {
            if (piece.length > 0)
                list_add(list, piece.data);
            piece.length = 0;
            if (*c == '\0')
                break;
        } else {
            if (*c == '\\' && c[1] != '\0')
                ++c;
            text_append(&piece, c, 1);
        }
    }
    text_free(&piece);
}

void
list_add_words(struct list *list, const char *words)
{
    struct text word = {0};
    bool in_word = false;
    char quote = '\0';
    for (const char *c = words; *c != '\0'; ++c) {
        if (quote == '\0' && isspace((unsigned char)*c)) {
            if (in_word)
                list_add_length(list, word.data != NULL ? word.data : "", word.length);
            word.length = 0;
            in_word = false;
            continue;
        }
        in_word = true;
        if (*c == quote) {
            quote = '\0';
        } else if (quote == '\0' && (*c == '"' || *c == '\'')) {
            quote = *c;
        } else {
            if (*c == '\\' && quote != '\'' && c[1] != '\0')
                ++c;
            text_append(&word, c, 1);
        }
    }
    if (in_word)
        list_add_length(list, word.data != NULL ? word.data : "", word.length);
    text_free(&word);
}
