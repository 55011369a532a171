/*
 * source.c - see source.h.
 */
#include "source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const keyword_table[] = {
    "__host__",    "__device__",        "__global__",  "__shared__", "__constant__",
    "__managed__", "__grid_constant__", "__nv_pure__", NULL,
};

const char *const keyword_call_table[] = {
    "__launch_bounds__", "__cluster_dims__", "__block_size__", "__maxnreg__", "__local_maxnreg__", NULL,
};

/* ---- edits ---- */

void
source_close(struct source *source)
{
    for (uint32_t i = 0; i <= source->code.count; ++i) {
        free(source->edits[i].before);
        free(source->edits[i].after);
    }
    free(source->edits);
    free(source->functions);
    code_free(&source->code);
    files_free(&source->files);
}

static void
add(char **place, bool in_front, const char *format, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0) {
        complain("out of memory");
        exit(EXIT_FAILURE);
    }
    if (*place != NULL) {
        char *both = in_front ? text_format("%s%s", text, *place) : text_format("%s%s", *place, text);
        free(*place);
        free(text);
        text = both;
    }
    *place = text;
}

void
source_before(struct source *source, uint32_t i, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(&source->edits[i].before, false, format, args);
    va_end(args);
}

void
source_before_all(struct source *source, uint32_t i, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(&source->edits[i].before, true, format, args);
    va_end(args);
}

void
source_after(struct source *source, uint32_t i, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(&source->edits[i].after, false, format, args);
    va_end(args);
}

void
source_drop(struct source *source, uint32_t i)
{
    source->edits[i].drop = true;
}

void
source_drop_range(struct source *source, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; ++i)
        source_drop(source, i);
}

void
source_error(struct source *source, uint32_t i, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = NULL;
    if (vasprintf(&text, format, args) >= 0)
        token_complain(&source->code, &source->files, i, "%s", text);
    free(text);
    va_end(args);
    source->failed = true;
}

/* ---- reading tokens ---- */

char *
source_spell(const struct source *source, uint32_t from, uint32_t to)
{
    struct text text = {0};
    text_append(&text, "", 0);
    for (uint32_t i = from; i < to; ++i) {
        const struct token *token = &source->code.tokens[i];
        const bool apart = i > from && token->begin != token[-1].begin + token[-1].length;
        if (apart)
            text_append(&text, " ", 1);
        text_append(&text, source->code.text + token->begin, token->length);
    }
    return text.data;
}
