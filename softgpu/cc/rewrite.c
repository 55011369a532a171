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
    for (uint32_t i = 0; i < source->code.count; ++i) {
        if (source_is_one_of(source, i, keyword_table))
            source_drop(source, i);
        if (source_is_one_of(source, i, keyword_call_table) && source_is(source, i + 1, "("))
            source_drop_range(source, i, source->code.tokens[i + 1].match + 1);
    }
}

static void
run_passes(struct source *source)
{
    indices_rewrite(source);
    removed_rewrite(source);
    blocking_find(source);
    for (size_t f = 0; f < source->function_count; ++f)
        body_rewrite(source, &source->functions[f]);
    casts_rewrite_all(source);
    for (size_t f = 0; f < source->function_count; ++f)
        lockstep_rewrite(source, &source->functions[f]);
    if (races_are_wanted())
        races_rewrite(source);
    body_rewrite_outside(source);
    launch_rewrite_all(source);
    for (size_t f = 0; f < source->function_count; ++f) {
        if ((source->functions[f].flags & FUNCTION_KERNEL) != 0)
            kernel_rewrite(source, &source->functions[f]);
    }
    drop_keywords(source);
}

/* Device code is no matter of the host compiler's warnings, as with nvcc: it is written as a system header's. [i]:
 * token i is in it. The caller frees it; NULL if warnings are as ever. */
static bool *
find_quiet(const struct source *source, const struct rewrite_options *options)
{
    if (!options->quiets_device)
        return NULL;
    bool *quiet = memory_grow(NULL, source->code.count + 1);
    memset(quiet, 0, source->code.count + 1);
    for (size_t f = 0; f < source->function_count; ++f) {
        const struct function *function = &source->functions[f];
        const uint32_t end = source->code.tokens[function->body].match;
        if ((function->flags & (FUNCTION_DEVICE | FUNCTION_KERNEL)) != 0)
            memset(quiet + function->head, 1, end + 1 - function->head);
    }
    return quiet;
}

/* The line marker in front of token i that makes its code a system header's, or the user's again. */
static void
write_marker(const struct source *source, uint32_t i, bool quiet, struct text *out)
{
    const struct token *token = &source->code.tokens[i];
    text_append_format(out, "\n# %u \"%s\"%s\n", token->line, source->files.names.items[token->file],
                       quiet || token->is_system ? " 3" : "");
}

/* Whether the line from `line` to `to` begins with a pragma that only nvcc knows. */
static bool
is_pragma_of_nvcc(const char *line, const char *to)
{
    static const char *const pragmas[] = {"#pragma unroll", "#pragma nounroll", "#pragma nv_", "#pragma hd_warning_"};
    for (size_t k = 0; k < sizeof(pragmas) / sizeof(pragmas[0]); ++k) {
        const size_t length = strlen(pragmas[k]);
        if ((size_t)(to - line) > length && memcmp(line, pragmas[k], length) == 0)
            return true;
    }
    return false;
}

/* The text between two tokens, without nvcc's pragmas, of which the host compiler would warn. */
static void
write_between(struct text *out, const char *from, const char *to)
{
    const char *line = memchr(from, '#', (size_t)(to - from));
    while (line != NULL) {
        const char *end = memchr(line, '\n', (size_t)(to - line));
        const char *next = end != NULL ? end : to;
        if (is_pragma_of_nvcc(line, to)) {
            text_append(out, from, (size_t)(line - from));
            from = next;
        }
        line = memchr(next, '#', (size_t)(to - next));
    }
    text_append(out, from, (size_t)(to - from));
}

static void
write_all(const struct source *source, const bool *quiet, struct text *out)
{
    const struct code *code = &source->code;
    const char *at = code->text;
    bool was_quiet = false;
    for (uint32_t i = 0; i < code->count; ++i) {
        const struct token *token = &code->tokens[i];
        const struct edit *edit = &source->edits[i];
        const char *begin = code->text + token->begin;
        const bool is_quiet = quiet != NULL && quiet[i];
        write_between(out, at, begin);
        if (is_quiet != was_quiet || (is_quiet && memchr(at, '#', (size_t)(begin - at)) != NULL))
            write_marker(source, i, is_quiet, out);
        was_quiet = is_quiet;
        if (edit->before != NULL)
            text_append_string(out, edit->before);
        if (!edit->drop)
            text_append(out, begin, token->length);
        if (edit->after != NULL)
            text_append_string(out, edit->after);
        at = begin + token->length;
    }
    write_between(out, at, code->text + code->length);
}

bool
rewrite(const char *text, size_t length, const struct rewrite_options *options, struct text *out)
{
    struct source source = {.is_relocatable = options->is_relocatable,
                            .allows_removed = options->allows_removed,
                            .shares_templates = options->shares_templates,
                            .is_module = options->is_module,
                            .device_is_default = options->device_is_default};
    if (!source_open(&source, text, length, &options->paths))
        return false;
    run_passes(&source);
    bool *quiet = find_quiet(&source, options);
    if (!source.failed)
        write_all(&source, quiet, out);
    free(quiet);
    const bool ok = !source.failed;
    source_close(&source);
    return ok;
}
