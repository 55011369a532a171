/*
 * rewrite.c - see rewrite.h; source.h tells the passes.
 */
#include "rewrite.h"

#include "source.h"

#include <stdlib.h>
#include <string.h>

/* What is left of CUDA's keywords when all passes are through. */
static void
drop_keywords(struct source *source)
{
    for (uint32_t i = 0; i < source->lexed.count; ++i) {
        if (source_is_one_of(source, i, keyword_table))
            source_drop(source, i);
        if (source_is_one_of(source, i, keyword_call_table) && source_is(source, i + 1, "("))
            source_drop_range(source, i, source->lexed.tokens[i + 1].match + 1);
    }
}

static void
run_passes(struct source *source)
{
    declare_all(source);
    indices_rewrite(source);
    removed_rewrite(source);
    blocking_find(source);
    for (size_t f = 0; f < source->function_count; ++f)
        body_rewrite(source, &source->functions[f]);
    casts_rewrite_all(source);
    for (size_t f = 0; f < source->function_count; ++f)
        lockstep_rewrite(source, &source->functions[f]);
    body_rewrite_outside(source);
    launch_rewrite_all(source);
    for (size_t f = 0; f < source->function_count; ++f) {
        if ((source->functions[f].flags & FUNCTION_KERNEL) != 0)
            kernel_rewrite(source, &source->functions[f]);
    }
    drop_keywords(source);
}

/* The text between two tokens, without `#pragma unroll`, of which the host compiler would warn. */
static void
write_between(struct text *out, const char *from, const char *to)
{
    static const char pragma[] = "#pragma unroll";
    while (from < to) {
        const char *found = memmem(from, (size_t)(to - from), pragma, sizeof(pragma) - 1);
        if (found == NULL)
            break;
        text_append(out, from, (size_t)(found - from));
        from = memchr(found, '\n', (size_t)(to - found));
        if (from == NULL)
            return;
    }
    text_append(out, from, (size_t)(to - from));
}

static void
write_all(const struct source *source, struct text *out)
{
    const struct lexed *lexed = &source->lexed;
    const char *at = lexed->text;
    for (uint32_t i = 0; i < lexed->count; ++i) {
        const struct token *token = &lexed->tokens[i];
        const struct edit *edit = &source->edits[i];
        const char *begin = lexed->text + token->begin;
        write_between(out, at, begin);
        if (edit->before != NULL)
            text_append_string(out, edit->before);
        if (!edit->drop)
            text_append(out, begin, token->length);
        if (edit->after != NULL)
            text_append_string(out, edit->after);
        at = begin + token->length;
    }
    write_between(out, at, lexed->text + lexed->length);
}

static void
free_source(struct source *source)
{
    for (uint32_t i = 0; i <= source->lexed.count; ++i) {
        free(source->edits[i].before);
        free(source->edits[i].after);
    }
    free(source->edits);
    free(source->functions);
    lexed_free(&source->lexed);
}

bool
rewrite(const char *text, size_t length, const struct rewrite_options *options, struct text *out)
{
    struct source source = {.is_relocatable = options->is_relocatable,
                            .allows_removed = options->allows_removed,
                            .shares_templates = options->shares_templates};
    if (!lex(text, length, &options->paths, &source.lexed))
        return false;
    const size_t edit_bytes = ((size_t)source.lexed.count + 1) * sizeof(*source.edits);
    source.edits = memory_grow(NULL, edit_bytes);
    memset(source.edits, 0, edit_bytes);
    run_passes(&source);
    if (!source.failed)
        write_all(&source, out);
    const bool ok = !source.failed;
    free_source(&source);
    return ok;
}
