/*
 * host_list.c - see host_list.h.
 */
#include "launcher/options/host_list.h"

#include "base/protocol.h"
#include "launcher/common/file_read.h"
#include "launcher/common/xcalloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_PLACE = 600, FILE_MOST_BYTES = 1 << 20 };

/* What is still to be read, and where that is, for messages. */
struct reader {
    const char *at, *end; /* of one item */
    const char *file;     /* NULL: the command line */
    int line;
};

static void
describe_place(const struct reader *reader, char place[LONGEST_PLACE])
{
    if (reader->file == NULL)
        snprintf(place, LONGEST_PLACE, "in --hosts");
    else
        snprintf(place, LONGEST_PLACE, "in line %d of %.512s", reader->line, reader->file);
}

/* A copy of `length` bytes that can be shown: cut if it is long, what is not printable as '?'. */
static void
show(const char *bytes, size_t length, char text[64])
{
    size_t kept = length < 60 ? length : 57;
    for (size_t i = 0; i < kept; ++i)
        text[i] = bytes[i] >= ' ' && bytes[i] <= '~' ? bytes[i] : '?';
    snprintf(text + kept, 64 - kept, "%s", kept < length ? "..." : "");
}

static bool
bad_item(const struct reader *reader, const char *item, size_t length, struct error *error)
{
    char text[64], place[LONGEST_PLACE];
    show(item, length, text);
    describe_place(reader, place);
    return error_set(error, DDPRUN_EXIT_USAGE, "'%s' is not HOST:RANKS, %s; write for example h1:8", text, place);
}

static bool
is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static void
skip_blanks(struct reader *reader)
{
    while (reader->at < reader->end && is_blank(*reader->at))
        ++reader->at;
}

static size_t
name_length(const struct reader *reader)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t length = 0;
    while (reader->at + length < reader->end && reader->at[length] != '\0' &&
           strchr(letters, reader->at[length]) != NULL)
        ++length;
    return length;
}

/* Takes `text` if it comes next. */
static bool
take_text(struct reader *reader, const char *text)
{
    size_t length = strlen(text);
    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, text, length) != 0)
        return false;
    reader->at += length;
    return true;
}

/* What stands between a host and its number; false if neither form does. */
static bool
take_separator(struct reader *reader)
{
    if (take_text(reader, ":"))
        return true;
    skip_blanks(reader);
    if (reader->file == NULL || !take_text(reader, "slots"))
        return false;
    skip_blanks(reader);
    if (!take_text(reader, "="))
        return false;
    skip_blanks(reader);
    return true;
}

/* All digits that follow; 0 if there are none or the number is too large. */
static int
take_number(struct reader *reader)
{
    int number = 0;
    for (; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; ++reader->at) {
        if (number <= HOST_LIST_MOST_RANKS)
            number = number * 10 + (*reader->at - '0');
    }
    return number <= HOST_LIST_MOST_RANKS ? number : 0;
}

static bool
add_host(struct host_list *list, const struct reader *reader, const char *name, size_t length, int ranks,
         struct error *error)
{
    char place[LONGEST_PLACE];
    describe_place(reader, place);
    for (int i = 0; i < list->count; ++i) {
        if (strncmp(list->hosts[i].name, name, length) == 0 && list->hosts[i].name[length] == '\0')
            return error_set(error, DDPRUN_EXIT_USAGE,
                             "host %s is named twice, %s; name it once, with all of its ranks", list->hosts[i].name,
                             place);
    }
    if (list->count == HOST_LIST_MOST_HOSTS)
        return error_set(error, DDPRUN_EXIT_USAGE, "more than %d hosts, %s; use a scheduler's launcher",
                         HOST_LIST_MOST_HOSTS, place);
    if ((list->count & (list->count - 1)) == 0) /* full at each power of two */
        list->hosts = xrealloc(list->hosts, (list->count > 0 ? 2 * (size_t)list->count : 1) * sizeof(*list->hosts));
    list->hosts[list->count++] = (struct host){xasprintf("%.*s", (int)length, name), ranks};
    list->ranks += ranks;
    return true;
}

/* One HOST:RANKS, from reader->at to reader->end. */
static bool
parse_item(struct reader *reader, struct host_list *list, struct error *error)
{
    char place[LONGEST_PLACE];
    describe_place(reader, place);
    skip_blanks(reader);
    while (reader->end > reader->at && is_blank(reader->end[-1]))
        --reader->end;
    const char *item = reader->at;
    size_t item_length = (size_t)(reader->end - item), length = name_length(reader);
    if (length == 0 || length > HOST_LIST_LONGEST_NAME || item[0] == '-')
        return bad_item(reader, item, item_length, error);
    reader->at += length;
    if (reader->at == reader->end)
        return error_set(error, DDPRUN_EXIT_USAGE, "host %.*s has no number of ranks, %s; write for example %.*s:8",
                         (int)length, item, place, (int)length, item);
    if (!take_separator(reader))
        return bad_item(reader, item, item_length, error);
    const char *digits = reader->at;
    int ranks = take_number(reader);
    if (ranks == 0 || reader->at != reader->end) {
        char text[64];
        show(digits, (size_t)(reader->end - digits), text);
        return error_set(error, DDPRUN_EXIT_USAGE, "'%s' is not a number of ranks from 1 to %d, for host %.*s, %s",
                         text, HOST_LIST_MOST_RANKS, (int)length, item, place);
    }
    return add_host(list, reader, item, length, ranks, error);
}

/* Whether a line of a file holds something; what follows '#' is cut off. */
static bool
holds_something(struct reader *reader)
{
    const char *comment = memchr(reader->at, '#', (size_t)(reader->end - reader->at));
    if (comment != NULL)
        reader->end = comment;
    skip_blanks(reader);
    return reader->at < reader->end;
}

bool
host_list_parse(const char *bytes, size_t length, const char *file, struct host_list *list_p, struct error *error)
{
    struct host_list list = {0};
    struct reader reader = {.file = file};
    const char *at = bytes, *end = bytes + length;
    bool ok = true;
    for (bool more = true; ok && more; ++at) {
        const char *stop = memchr(at, file != NULL ? '\n' : ',', (size_t)(end - at));
        more = stop != NULL;
        reader.at = at;
        reader.end = at = more ? stop : end;
        ++reader.line;
        if (file == NULL || holds_something(&reader))
            ok = parse_item(&reader, &list, error);
    }
    if (ok && list.count == 0)
        ok = error_set(error, DDPRUN_EXIT_USAGE, "%.512s names no host; write one a line, such as h1:8", file);
    if (!ok) {
        host_list_free(&list);
        return false;
    }
    *list_p = list;
    return true;
}

static bool
take_file(const char *path, struct host_list *list, struct error *error)
{
    size_t length = 0;
    char *bytes = file_read(path, FILE_MOST_BYTES, &length, NULL);
    if (bytes == NULL)
        return error_set(error, DDPRUN_EXIT_USAGE, "cannot read %.512s, in --hosts: %s; name a file of hosts", path,
                         file_why(errno));
    bool ok = host_list_parse(bytes, length, path, list, error);
    free(bytes);
    return ok;
}

bool
host_list_take(const char *value, struct host_list *list, struct error *error)
{
    if (strncmp(value, "file=", 5) == 0)
        return take_file(value + 5, list, error);
    return host_list_parse(value, strlen(value), NULL, list, error);
}

void
host_list_free(struct host_list *list)
{
    for (int i = 0; i < list->count; ++i)
        free(list->hosts[i].name);
    free(list->hosts);
    *list = (struct host_list){0};
}
