/*
 * text.h - growing strings and lists of strings for softgpu-cc.
 *
 * softgpu-cc is a program of one thread that lives for seconds: running out of memory ends it with a message, so that
 * nothing here can fail.
 */
#ifndef SOFTGPU_CC_TEXT_H
#define SOFTGPU_CC_TEXT_H

#include "text/memory.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* ---- strings: `data` is always NUL-terminated once something was appended; zero-initialise ---- */

struct text {
    char *data;
    size_t length;
    size_t capacity;
};

void text_append(struct text *text, const char *bytes, size_t length);
void text_append_string(struct text *text, const char *string);
void text_append_format(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_free(struct text *text);

/* A new string from a format; the caller frees it, or does not. */
char *text_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- lists: `items` ends with NULL once something was added, as execv wants it; zero-initialise ---- */

struct list {
    char **items;
    size_t count;
    size_t capacity;
};

/* Adds a copy. */
void list_add(struct list *list, const char *string);
void list_add_length(struct list *list, const char *bytes, size_t length);
void list_add_format(struct list *list, const char *format, ...) __attribute__((format(printf, 2, 3)));
void list_add_all(struct list *list, const struct list *more);
bool list_has(const struct list *list, const char *string);

void list_free(struct list *list);

/* Adds the pieces between commas that are not in double quotes, which stay; a backslash keeps the character after it.
 */
void list_add_commas(struct list *list, const char *pieces);

/* Adds the words between white space; quotes and backslashes work as in a shell. */
void list_add_words(struct list *list, const char *words);

/* Writes "softgpu-cc: error: ..." to stderr. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
