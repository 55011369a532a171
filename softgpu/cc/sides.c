/*
 * sides.c - see sides.h.
 *
 * Functions of the two texts are the same if they stand in the same line under the same name, or, where #if and #else
 * each have one, if name and parameters are the same.
 */
#include "sides.h"

#include "source.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEVICE_CODE = FUNCTION_DEVICE | FUNCTION_KERNEL };

/* Bytes of the host's text, and what stands there instead. */
struct change {
    size_t from, to, number;
    char *text;
};

struct merge {
    struct source host, device;
    size_t *partner; /* of a function of the device's text: 1 + the host's, or 0 */
    bool *is_taken;  /* of a function of the host's text: it has a partner */
    struct change *changes;
    size_t change_count;
};

/* ---- is it needed? ---- */

static bool
file_asks(const char *path)
{
    static const char *const words[] = {"__CUDA_ARCH__", "NV_IF_", "NV_DISPATCH_TARGET"};
    struct stat info;
    bool asks = false;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false; /* <built-in> */
    if (fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
        const char *text = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        for (size_t k = 0; text != MAP_FAILED && k < sizeof(words) / sizeof(words[0]); ++k)
            asks = asks || memmem(text, (size_t)info.st_size, words[k], strlen(words[k])) != NULL;
        if (text != MAP_FAILED)
            munmap((void *)(uintptr_t)text, (size_t)info.st_size);
    }
    close(file);
    return asks;
}

bool
sides_are_asked(const char *text, size_t length, const struct lex_paths *paths)
{
    struct code code;
    struct files files;
    bool asked = false;
    if (!lex(text, length, paths, &code, &files))
        return false; /* rewrite() says why again */
    for (size_t i = 0; i < files.names.count && !asked; ++i)
        asked = !files.is_system[i] && file_asks(files.names.items[i]);
    code_free(&code);
    files_free(&files);
    return asked;
}

/* ---- the same tokens ---- */

static bool
same_token(const struct merge *merge, uint32_t h, uint32_t d)
{
    const struct token *a = &merge->host.code.tokens[h], *b = &merge->device.code.tokens[d];
    return a->length == b->length &&
           memcmp(merge->host.code.text + a->begin, merge->device.code.text + b->begin, a->length) == 0;
}

/* Tokens h..h_end and d..d_end. */
static bool
same_tokens(const struct merge *merge, uint32_t h, uint32_t h_end, uint32_t d, uint32_t d_end)
{
    if (h_end - h != d_end - d)
        return false;
    for (; h < h_end; ++h, ++d) {
        if (!same_token(merge, h, d))
            return false;
    }
    return true;
}

/* The brackets at h and d hold the same. */
static bool
same_group(const struct merge *merge, uint32_t h, uint32_t d)
{
    return same_tokens(merge, h, merge->host.code.tokens[h].match, d, merge->device.code.tokens[d].match);
}

static bool
same_file(const struct merge *merge, uint32_t h, uint32_t d)
{
    const struct source *host = &merge->host, *device = &merge->device;
    return strcmp(host->files.names.items[host->code.tokens[h].file],
                  device->files.names.items[device->code.tokens[d].file]) == 0;
}

static bool
are_same(const struct merge *merge, const struct function *h, const struct function *d, bool in_one_line)
{
    const struct token *a = &merge->host.code.tokens[h->name], *b = &merge->device.code.tokens[d->name];
    return same_token(merge, h->name, d->name) && same_file(merge, h->name, d->name) &&
           (in_one_line ? a->line == b->line : same_group(merge, h->params, d->params));
}

/* ---- partners ---- */

/* The functions of both texts come in the same order. */
static void
pair_functions(struct merge *merge, bool in_one_line)
{
    for (size_t d = 0, next = 0; d < merge->device.function_count; ++d) {
        for (size_t h = next; merge->partner[d] == 0 && h < merge->host.function_count; ++h) {
            if (merge->is_taken[h] ||
                !are_same(merge, &merge->host.functions[h], &merge->device.functions[d], in_one_line))
                continue;
            merge->partner[d] = h + 1;
            merge->is_taken[h] = true;
        }
        if (merge->partner[d] > next)
            next = merge->partner[d];
    }
}

/* ---- changes ---- */

/* Takes `text`. */
static void
change(struct merge *merge, size_t from, size_t to, struct text *text)
{
    merge->changes = memory_grow(merge->changes, (merge->change_count + 1) * sizeof(*merge->changes));
    merge->changes[merge->change_count] = (struct change){from, to, merge->change_count, text->data};
    ++merge->change_count;
}

static size_t
end_of(const struct token *token)
{
    return token->begin + token->length;
}

static void
append_marker(struct text *text, const struct source *source, uint32_t i)
{
    const struct token *token = &source->code.tokens[i];
    text_append_format(text, "\n# %u \"%s\"\n", token->line, source->files.names.items[token->file]);
}

/* What stands between the brackets at `open`, with its line. */
static void
append_body(struct text *text, const struct source *source, uint32_t open)
{
    const struct token *token = &source->code.tokens[open];
    append_marker(text, source, open);
    text_append(text, source->code.text + end_of(token), source->code.tokens[token->match].begin - end_of(token));
}

/* The body at h, which is the device's at d: that one, or with `has_both` each on its side. */
static void
change_body(struct merge *merge, uint32_t h, uint32_t d, bool has_both)
{
    const struct token *open = &merge->host.code.tokens[h];
    if (same_group(merge, h, d))
        return;
    struct text text = {0};
    if (has_both)
        text_append_string(&text, " if (::softgpu::on_device()) {");
    append_body(&text, &merge->device, d);
    if (has_both) {
        text_append_string(&text, "} else {");
        append_body(&text, &merge->host, h);
        text_append_string(&text, "}");
    }
    append_marker(&text, &merge->host, open->match);
    change(merge, end_of(open), merge->host.code.tokens[open->match].begin, &text);
}

/* From i on, before `end`: the next lambda for the device, or `end`. */
static uint32_t
next_lambda(const struct source *source, uint32_t i, uint32_t end, bool *has_both)
{
    for (; i < end; ++i) {
        const uint32_t body = source_is_lambda(source, i) ? source_lambda_body(source, i) : i;
        bool is_device = false;
        *has_both = false;
        for (uint32_t k = i; k < body; ++k) {
            is_device = is_device || source_is(source, k, "__device__");
            *has_both = *has_both || source_is(source, k, "__host__");
        }
        if (is_device)
            return body;
    }
    return end;
}

/* In a function of the host's, lambdas for the device. */
static void
change_lambdas(struct merge *merge, uint32_t h, uint32_t d)
{
    const uint32_t h_end = merge->host.code.tokens[h].match, d_end = merge->device.code.tokens[d].match;
    bool has_both;
    if (same_group(merge, h, d))
        return;
    for (;;) {
        d = next_lambda(&merge->device, d, d_end, &has_both);
        h = next_lambda(&merge->host, h, h_end, &has_both);
        if (h == h_end || d == d_end)
            return;
        change_body(merge, h, d, has_both);
        d = merge->device.code.tokens[d].match;
        h = merge->host.code.tokens[h].match;
    }
}

/* Where in the host's text a function of the device's belongs: before what stands in a later line of its file. */
static size_t
place_of(const struct merge *merge, uint32_t d)
{
    const struct code *host = &merge->host.code;
    size_t place = 0;
    for (uint32_t h = 0; h < host->count; ++h) {
        if (!same_file(merge, h, d))
            continue;
        if (host->tokens[h].line >= merge->device.code.tokens[d].line)
            return host->tokens[h].begin;
        place = end_of(&host->tokens[h]);
    }
    return place;
}

/* The device's function in place of from..to. */
static void
put_function(struct merge *merge, size_t from, size_t to, const struct function *function)
{
    const struct source *device = &merge->device;
    const struct token *first = &device->code.tokens[function->head];
    const struct token *last = &device->code.tokens[device->code.tokens[function->body].match];
    struct text text = {0};
    append_marker(&text, device, function->head);
    text_append(&text, device->code.text + first->begin, end_of(last) - first->begin);
    append_marker(&text, device, device->code.tokens[function->body].match);
    change(merge, from, to, &text);
}

/* A function of both texts, of which the device's is device code. */
static void
change_function(struct merge *merge, const struct function *h, const struct function *d)
{
    const struct token *tokens = merge->host.code.tokens;
    const uint32_t behind = tokens[h->params].match, d_behind = merge->device.code.tokens[d->params].match;
    const bool has_both = (h->flags & FUNCTION_HOST) != 0 || (h->flags & DEVICE_CODE) == 0;
    const bool is_alike = same_tokens(merge, behind, h->body, d_behind, d->body);
    if (has_both && !is_alike)
        source_error(&merge->host, h->name,
                     "softgpu-cc does not support what differs between host and device (__CUDA_ARCH__) before the body "
                     "of a function for both: initialisers; assign in the body");
    else if (is_alike)
        change_body(merge, h->body, d->body, has_both);
    else
        put_function(merge, tokens[h->head].begin, end_of(&tokens[tokens[h->body].match]), d);
}

static void
change_functions(struct merge *merge)
{
    for (size_t d = 0; d < merge->device.function_count; ++d) {
        const struct function *device = &merge->device.functions[d];
        const struct function *host = merge->partner[d] != 0 ? &merge->host.functions[merge->partner[d] - 1] : NULL;
        if (host == NULL && (device->flags & DEVICE_CODE) != 0)
            put_function(merge, place_of(merge, device->head), place_of(merge, device->head), device);
        else if (host != NULL && (device->flags & DEVICE_CODE) != 0)
            change_function(merge, host, device);
        else if (host != NULL)
            change_lambdas(merge, host->body, device->body);
    }
    for (size_t h = 0; h < merge->host.function_count; ++h) {
        const struct function *host = &merge->host.functions[h];
        const struct token *tokens = merge->host.code.tokens;
        struct text nothing = {0};
        if (!merge->is_taken[h] && (host->flags & DEVICE_CODE) != 0 && (host->flags & FUNCTION_HOST) == 0) {
            append_marker(&nothing, &merge->host, tokens[host->body].match);
            change(merge, tokens[host->head].begin, end_of(&tokens[tokens[host->body].match]), &nothing);
        }
    }
}

/* ---- all of it ---- */

/* By place; what is put in stands before what is changed, in the order of the device's text. */
static int
compare(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

static void
write_merged(struct merge *merge, struct text *out)
{
    const struct code *host = &merge->host.code;
    size_t at = 0;
    qsort(merge->changes, merge->change_count, sizeof(*merge->changes), compare);
    for (size_t i = 0; i < merge->change_count; ++i) {
        const struct change *c = &merge->changes[i];
        text_append(out, host->text + at, c->from - at);
        text_append_string(out, c->text);
        at = c->to;
    }
    text_append(out, host->text + at, host->length - at);
}

static void *
zeroed(size_t bytes)
{
    return memset(memory_grow(NULL, bytes), 0, bytes);
}

bool
sides_merge(const struct text *host, const struct text *device, const struct lex_paths *paths, struct text *out)
{
    struct merge merge = {0};
    bool ok = source_open(&merge.host, host->data, host->length, paths);
    if (ok && source_open(&merge.device, device->data, device->length, paths)) {
        merge.partner = zeroed((merge.device.function_count + 1) * sizeof(*merge.partner));
        merge.is_taken = zeroed((merge.host.function_count + 1) * sizeof(*merge.is_taken));
        pair_functions(&merge, true);
        pair_functions(&merge, false);
        change_functions(&merge);
        ok = !merge.host.failed;
        if (ok)
            write_merged(&merge, out);
        for (size_t i = 0; i < merge.change_count; ++i)
            free(merge.changes[i].text);
        free(merge.changes);
        free(merge.partner);
        free(merge.is_taken);
        source_close(&merge.device);
    } else {
        ok = false;
    }
    if (merge.host.edits != NULL)
        source_close(&merge.host);
    return ok;
}
