/*
 * lex.c - see lex.h.
 */
#include "lex.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool
begins_with_one_of(const char *path, const struct list *prefixes)
{
    for (size_t i = 0; i < prefixes->count; ++i) {
        if (strncmp(path, prefixes->items[i], strlen(prefixes->items[i])) == 0)
            return true;
    }
    return false;
}

static uint32_t
file_index(struct files *files, const struct lex_paths *paths, const char *path, bool is_flagged)
{
    for (size_t i = files->names.count; i-- > 0;) {
        if (strcmp(files->names.items[i], path) == 0)
            return (uint32_t)i;
    }
    const size_t index = files->names.count;
    list_add(&files->names, path);
    files->is_system = memory_grow(files->is_system, (index + 1) * sizeof(*files->is_system));
    files->is_system[index] =
        begins_with_one_of(path, &paths->system) || (is_flagged && !begins_with_one_of(path, &paths->not_system));
    return (uint32_t)index;
}

/* # 12 "path" 1 3: from the next line on, line 12 of path; flag 3 says that it is a system header. */
struct marker {
    uint32_t line;
    struct text path; /* empty: the file stays */
    bool is_flagged;
};

/* False: the directive is no line marker. marker->path is the caller's. */
static bool
read_marker(const char *line, const char *line_end, struct marker *marker)
{
    const char *c = line + 1;
    if (c == line_end || (*c != ' ' && !isdigit((unsigned char)*c)))
        return false;
    while (c < line_end && *c == ' ')
        ++c;
    if (c == line_end || !isdigit((unsigned char)*c))
        return false;
    *marker = (struct marker){.line = (uint32_t)strtoul(c, NULL, 10)};
    const char *quote = memchr(c, '"', (size_t)(line_end - c));
    if (quote == NULL)
        return true;

    text_append(&marker->path, "", 0);
    for (c = quote + 1; c < line_end && *c != '"'; ++c) {
        if (*c == '\\' && c + 1 < line_end)
            ++c;
        text_append(&marker->path, c, 1);
    }
    for (; c < line_end; ++c)
        marker->is_flagged = marker->is_flagged || (*c == '3' && c[-1] == ' ');
    return true;
}

/* Gives tokens the file and the line that the markers before them say. */
static void
place_tokens(struct code *code, struct files *files, const struct lex_paths *paths)
{
    uint32_t file = file_index(files, paths, "<input>", false), shift = 0; /* modulo 2^32 */
    uint32_t i = 0;
    for (uint32_t d = 0; d <= code->directive_count; ++d) {
        const struct directive *directive = d < code->directive_count ? &code->directives[d] : NULL;
        const uint32_t end = directive != NULL ? directive->next : code->count + 1;
        for (; i < end; ++i) {
            code->tokens[i].line += shift;
            code->tokens[i].file = file;
            code->tokens[i].is_system = files->is_system[file];
        }
        struct marker marker;
        if (directive == NULL || !read_marker(code->text + directive->begin, code->text + directive->end, &marker))
            continue;
        shift = marker.line - directive->next_line;
        if (marker.path.data != NULL)
            file = file_index(files, paths, marker.path.data, marker.is_flagged);
        text_free(&marker.path);
    }
}

static void
complain_of_bracket(const struct code *code, const struct files *files)
{
    static const char brackets[] = ")(][}{";
    const uint32_t i = code->unmatched;
    const char c = code->text[code->tokens[i].begin];
    const size_t place = (size_t)(strchr(brackets, c) - brackets);
    if (place % 2 == 0)
        token_complain(code, files, i, "'%c' without its '%c'", c, brackets[place + 1]);
    else
        token_complain(code, files, i, "'%c' is never closed", c);
}

bool
lex(const char *text, size_t length, const struct lex_paths *paths, struct code *code_p, struct files *files_p)
{
    struct code code;
    struct files files = {0};
    if (!code_read(text, length, &code)) {
        complain("a preprocessed source of %zu bytes is more than 4 GiB", length);
        return false;
    }
    place_tokens(&code, &files, paths);
    if (code.unmatched < code.count) {
        complain_of_bracket(&code, &files);
        code_free(&code);
        files_free(&files);
        return false;
    }
    *code_p = code;
    *files_p = files;
    return true;
}

void
files_free(struct files *files)
{
    list_free(&files->names);
    free(files->is_system);
    *files = (struct files){0};
}

void
token_complain(const struct code *code, const struct files *files, uint32_t i, const char *format, ...)
{
    const struct token *token = &code->tokens[i];
    fprintf(stderr, "%s:%u: error: ", files->names.items[token->file], token->line);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}
