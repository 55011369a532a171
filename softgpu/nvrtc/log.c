/*
 * log.c - from the host compiler's messages to NVRTC's form, which programs show and some of them read:
 *
 *     name(3): error: 'y' was not declared in this scope
 *       y = 1;
 *       ^
 *
 *     1 error detected in the compilation of "name".
 *
 * The words of a message are the host compiler's own; those of a header that is missing are NVRTC's. Read are gcc's and
 * clang's "file:line:column: kind: words" and softgpu-cc's, without columns. Lines that say in which function or
 * template a message arose are left out.
 */
#include "program.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum kind { KIND_NONE, KIND_FATAL, KIND_ERROR, KIND_WARNING, KIND_NOTE };

struct message {
    enum kind kind;
    const char *file;
    size_t file_length;
    unsigned long line;
    const char *words;
    size_t words_length;
};

static const struct {
    const char *mark, *name;
    enum kind kind;
} kinds[] = {
    {": fatal error: ", "catastrophic error", KIND_FATAL},
    {": error: ", "error", KIND_ERROR},
    {": warning: ", "warning", KIND_WARNING},
    {": note: ", "note", KIND_NOTE},
};

/* ---- reading a line ---- */

/* Takes ":12" off the end of a text of *length_p bytes: true, and the number in *number_p. */
static bool
take_number(const char *text, size_t *length_p, unsigned long *number_p)
{
    size_t begin = *length_p;
    while (begin > 0 && isdigit((unsigned char)text[begin - 1]))
        --begin;
    if (begin == *length_p || begin < 2 || text[begin - 1] != ':')
        return false;
    *number_p = strtoul(text + begin, NULL, 10);
    *length_p = begin - 1;
    return true;
}

#define DIRECTIVE "#error "

/* What ends NVRTC's compilation: after an #error, nothing else is a message of its own. */
static bool
is_last(const struct message *message)
{
    const bool is_directive = message->kind != KIND_NONE && message->words_length > strlen(DIRECTIVE) &&
                              memcmp(message->words, DIRECTIVE, strlen(DIRECTIVE)) == 0;
    return message->kind == KIND_FATAL || is_directive;
}

static struct message
read_line(const char *line, size_t length)
{
    static const char of_options[] = "<command-line>";
    struct message message = {.kind = KIND_NONE};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); ++i) {
        const char *at = memmem(line, length, kinds[i].mark, strlen(kinds[i].mark));
        unsigned long number = 0;
        size_t place = at != NULL ? (size_t)(at - line) : 0;
        if (at == NULL || (!take_number(line, &place, &number) && strncmp(line, of_options, place) != 0))
            continue;
        message.kind = kinds[i].kind;
        message.line = number;
        if (take_number(line, &place, &number)) /* the one before was a column */
            message.line = number;
        message.file = line;
        message.file_length = place;
        message.words = at + strlen(kinds[i].mark);
        message.words_length = (size_t)(line + length - message.words);
        return message;
    }
    return message;
}

/* ---- the line of the source ---- */

/* The text of a file by its name in messages: the program's, or a header's; NULL: another file. */
static const char *
text_of(const struct _nvrtcProgram *program, const struct message *message)
{
    const size_t length = message->file_length;
    if (strlen(program->name) == length && memcmp(program->name, message->file, length) == 0)
        return program->source;
    for (size_t i = 0; i < program->header_names.count; ++i) {
        const char *name = program->header_names.items[i];
        if (strlen(name) == length && memcmp(name, message->file, length) == 0)
            return program->headers.items[i];
    }
    return NULL;
}

/* Where in the source's line the first quoted word of a message stands, or the line begins. */
static size_t
caret_of(const struct message *message, const char *line, size_t length)
{
    const char *open = memchr(message->words, '\'', message->words_length);
    const size_t left = open != NULL ? (size_t)(message->words + message->words_length - open - 1) : 0;
    const char *close = open != NULL ? memchr(open + 1, '\'', left) : NULL;
    const char *at = close != NULL ? memmem(line, length, open + 1, (size_t)(close - open - 1)) : NULL;
    if (at != NULL)
        return (size_t)(at - line);
    return strspn(line, " \t") < length ? strspn(line, " \t") : 0;
}

static void
add_source_line(struct _nvrtcProgram *program, const struct message *message)
{
    const char *line = text_of(program, message);
    for (unsigned long number = 1; line != NULL && number < message->line; ++number) {
        line = strchr(line, '\n');
        if (line != NULL)
            ++line;
    }
    if (line == NULL)
        return;
    const size_t length = strcspn(line, "\n"), caret = caret_of(message, line, length);
    buffer_add_format(&program->log, "  %.*s\n  ", (int)length, line);
    for (size_t i = 0; i < caret; ++i)
        buffer_add(&program->log, line[i] == '\t' ? "\t" : " ", 1);
    buffer_add_string(&program->log, "^\n");
}

/* ---- writing ---- */

static bool
is_in(const struct message *message, const char *file)
{
    return message->file_length == strlen(file) && memcmp(message->file, file, message->file_length) == 0;
}

/* Of a name expression that is neither a kernel nor the address of a variable: the overloads of ::softgpu::named(),
 * which takes it, are not the user's. */
static bool
add_wrong_expression(struct _nvrtcProgram *program, const struct message *message)
{
    static const char mark[] = "to 'named(";
    if (!is_in(message, EXPRESSION_FILE) || memmem(message->words, message->words_length, mark, strlen(mark)) == NULL ||
        message->line == 0 || message->line > program->expressions.count)
        return false;
    buffer_add_format(&program->log,
                      EXPRESSION_FILE
                      "(%lu): error: Name expression must form address of a __global__ function or the "
                      "address of a __device__/__constant__ variable. Input name expression was: \"%s\"\n\n",
                      message->line, program->expressions.items[message->line - 1]);
    return true;
}

/* Notes of the stand-in's own headers explain its own code. */
static bool
is_ours(const struct message *message)
{
    static const char folder[] = "/softgpu/include/";
    return message->kind == KIND_NOTE && memmem(message->file, message->file_length, folder, strlen(folder)) != NULL;
}

/* The words of the host compiler for a header that is missing: "x.h: No such file or directory" (gcc), "'x.h' file not
 * found" (clang). */
static bool
add_missing_header(struct _nvrtcProgram *program, const struct message *message)
{
    static const char of_gcc[] = ": No such file or directory", of_clang[] = "' file not found";
    const char *end = memmem(message->words, message->words_length, of_gcc, strlen(of_gcc));
    const char *begin = message->words;
    if (end == NULL) {
        end = memmem(message->words, message->words_length, of_clang, strlen(of_clang));
        ++begin;
    }
    if (end == NULL)
        return false;
    buffer_add_format(&program->log, "cannot open source file \"%.*s\"\n", (int)(end - begin), begin);
    return true;
}

static void
add_message(struct _nvrtcProgram *program, const struct message *message)
{
    if (is_ours(message) || add_wrong_expression(program, message))
        return;
    if (message->line == 0) { /* of an option */
        buffer_add_string(&program->log, "Command-line error: ");
        if (!add_missing_header(program, message))
            buffer_add_format(&program->log, "%.*s\n", (int)message->words_length, message->words);
        buffer_add_string(&program->log, "\n");
        return;
    }
    const enum kind kind = is_last(message) ? KIND_FATAL : message->kind;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); ++i) {
        if (kinds[i].kind == kind)
            buffer_add_format(&program->log, "%.*s(%lu): %s: ", (int)message->file_length, message->file, message->line,
                              kinds[i].name);
    }
    if (message->kind == KIND_FATAL && add_missing_header(program, message)) {
        add_source_line(program, message);
    } else if (is_last(message) && message->kind != KIND_FATAL) {
        const int skipped = (int)strlen(DIRECTIVE);
        buffer_add_format(&program->log, "#error directive: %.*s\n", (int)message->words_length - skipped,
                          message->words + skipped);
        add_source_line(program, message);
    } else {
        buffer_add_format(&program->log, "%.*s\n", (int)message->words_length, message->words);
        add_source_line(program, message);
    }
    buffer_add_string(&program->log, "\n");
}

static void
add_total(struct _nvrtcProgram *program, unsigned errors, bool is_fatal)
{
    const char *const what = is_fatal ? "catastrophic error" : "error", *const plural = errors == 1 ? "" : "s";
    buffer_add_format(&program->log, "%u %s%s detected in the compilation of \"%s\".\n", errors, what, plural,
                      program->name);
    if (is_fatal)
        buffer_add_string(&program->log, "Compilation terminated.\n");
}

/* The messages without the names of the private folder. */
static void
strip_folder(const struct outcome *outcome, struct buffer *stripped)
{
    static const char headers[] = "/headers/";
    const char *at = outcome->messages.data, *found = strstr(at, outcome->folder);
    for (; found != NULL; found = strstr(at, outcome->folder)) {
        buffer_add(stripped, at, (size_t)(found - at));
        at = found + strlen(outcome->folder);
        while (strncmp(at, headers, strlen(headers)) == 0)
            at += strlen(headers) - 1;
        at += *at == '/';
    }
    buffer_add_string(stripped, at);
}

void
log_translate(struct _nvrtcProgram *program, const struct outcome *outcome)
{
    struct buffer text = {NULL, 0, 0, false};
    unsigned errors = 0;
    bool is_fatal = false;
    if (outcome->messages.length == 0)
        return;
    strip_folder(outcome, &text);
    const char *line = text.failed ? "" : text.data;
    while (*line != '\0' && !is_fatal) {
        const size_t length = strcspn(line, "\n");
        const struct message message = read_line(line, length);
        errors += message.kind == KIND_ERROR || message.kind == KIND_FATAL;
        is_fatal = is_last(&message);
        if (message.kind != KIND_NONE)
            add_message(program, &message);
        line += length + (line[length] == '\n');
    }
    if (errors > 0)
        add_total(program, errors, is_fatal);
    else if (outcome->module.length == 0) /* the linker, or a compiler that has crashed */
        buffer_add_string(&program->log, text.data);
    if (text.failed)
        program->log.failed = true;
    buffer_free(&text);
}
