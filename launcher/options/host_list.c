/* host_list.c - see host_list.h. */
#include "launcher/options/host_list.h"

#include "base/protocol.h"
#include "launcher/common/file_read.h"
#include "launcher/common/xcalloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACE_BYTES = 600, FILE_MOST_BYTES = 1 << 20 };

static const char blanks[] = " \t\r";

/* What can be shown of a text: cut if it is long, what is not printable as '?'. */
static const char *
show(const char *from, char text[64])
{
    size_t length = strlen(from), kept = length < 60 ? length : 57;
    for (size_t i = 0; i < kept; ++i)
        text[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
    snprintf(text + kept, 64 - kept, "%s", kept < length ? "..." : "");
    return text;
}

/* What stands between a host and its number; NULL: neither form does. */
static const char *
skip_separator(const char *at, bool in_file)
{
    if (*at == ':')
        return at + 1;
    at += strspn(at, blanks);
    if (!in_file || strncmp(at, "slots", 5) != 0)
        return NULL;
    at += 5 + strspn(at + 5, blanks);
    return *at == '=' ? at + 1 + strspn(at + 1, blanks) : NULL;
}

/* `place`: where the host stands, for messages. */
static bool
add_host(struct host_list *list, const char *name, int length, int ranks, const char *place, struct error *error)
{
    for (int i = 0; i < list->count; ++i) {
        if (strncmp(list->hosts[i].name, name, (size_t)length) == 0 && list->hosts[i].name[length] == '\0')
            return error_set(error, DDPRUN_EXIT_USAGE,
                             "host %s is named twice, %s; name it once, with all of its ranks", list->hosts[i].name,
                             place);
    }
    if (list->count == HOST_LIST_MOST_HOSTS)
        return error_set(error, DDPRUN_EXIT_USAGE, "more than %d hosts, %s; use a scheduler's launcher",
                         HOST_LIST_MOST_HOSTS, place);
    if ((list->count & (list->count - 1)) == 0) /* full at each power of two */
        list->hosts = xrealloc(list->hosts, (list->count > 0 ? 2 * (size_t)list->count : 1) * sizeof(*list->hosts));
    list->hosts[list->count++] = (struct host){xasprintf("%.*s", length, name), ranks};
    list->ranks += ranks;
    return true;
}

/* One HOST:RANKS, without blanks around it. */
static bool
parse_item(const char *item, bool in_file, const char *place, struct host_list *list, struct error *error)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    char text[64];
    int length = (int)strspn(item, letters);
    bool is_name = length > 0 && length <= HOST_LIST_LONGEST_NAME && item[0] != '-';
    if (is_name && item[length] == '\0')
        return error_set(error, DDPRUN_EXIT_USAGE, "host %.*s has no number of ranks, %s; write for example %.*s:8",
                         length, item, place, length, item);
    const char *digits = is_name ? skip_separator(item + length, in_file) : NULL;
    if (digits == NULL)
        return error_set(error, DDPRUN_EXIT_USAGE, "'%s' is not HOST:RANKS, %s; write for example h1:8",
                         show(item, text), place);
    unsigned long ranks = digits[strspn(digits, "0123456789")] == '\0' ? strtoul(digits, NULL, 10) : 0;
    if (ranks < 1 || ranks > HOST_LIST_MOST_RANKS)
        return error_set(error, DDPRUN_EXIT_USAGE, "'%s' is not a number of ranks from 1 to %d, for host %.*s, %s",
                         show(digits, text), HOST_LIST_MOST_RANKS, length, item, place);
    return add_host(list, item, length, (int)ranks, place, error);
}

bool
host_list_parse(const char *bytes, size_t length, const char *file, struct host_list *list_p, struct error *error)
{
    struct host_list list = {0};
    char *copy = xcalloc(1, length + 1), *rest = copy, *item;
    bool ok = true;
    for (size_t i = 0; i < length; ++i)
        copy[i] = bytes[i] != '\0' ? bytes[i] : '?';
    for (int line = 1; ok && (item = strsep(&rest, file != NULL ? "\n" : ",")) != NULL; ++line) {
        char place[PLACE_BYTES] = "in --hosts";
        if (file != NULL) {
            snprintf(place, sizeof(place), "in line %d of %.512s", line, file);
            item[strcspn(item, "#")] = '\0';
        }
        item += strspn(item, blanks);
        for (char *end = item + strlen(item); end > item && strchr(blanks, end[-1]) != NULL;)
            *--end = '\0';
        if (file == NULL || item[0] != '\0')
            ok = parse_item(item, file != NULL, place, &list, error);
    }
    free(copy);
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
