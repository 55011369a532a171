/* gpu_list.c - see options.h. */
#include "launcher/options/options.h"

#include "base/protocol.h"
#include "launcher/common/xcalloc.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_INDEX = 1023, LONGEST_ITEM = 96 };

bool
gpu_list_add_once(struct word_list *list, const char *name, struct error *error)
{
    for (size_t i = 0; i < list->count; ++i) {
        if (strcmp(list->list[i], name) == 0)
            return error_set(error, DDPRUN_EXIT_USAGE,
                             "GPU %s is named twice, in --gpus; name each GPU once (--share-gpu lets ranks share it)",
                             name);
    }
    word_list_add(list, xstrdup(name));
    return true;
}

int
gpu_list_index(const char *name)
{
    size_t length = strspn(name, "0123456789");
    if (length == 0 || length > 4 || name[length] != '\0')
        return -1;
    int index = atoi(name);
    return index <= LARGEST_INDEX ? index : -1;
}

static bool
is_uuid(const char *item)
{
    if (strncmp(item, "GPU-", 4) != 0 && strncmp(item, "MIG-", 4) != 0)
        return false;
    if (item[4] == '\0')
        return false;
    for (const char *p = item + 4; *p != '\0'; ++p) {
        if (!isalnum((unsigned char)*p) && *p != '-' && *p != '/')
            return false;
    }
    return true;
}

static bool
add_range(struct word_list *list, int first, int last, struct error *error)
{
    for (int index = first; index <= last; ++index) {
        char name[16];
        snprintf(name, sizeof(name), "%d", index);
        if (!gpu_list_add_once(list, name, error))
            return false;
    }
    return true;
}

static bool
add_item(struct word_list *list, const char *item, struct error *error)
{
    if (is_uuid(item))
        return gpu_list_add_once(list, item, error);

    const char *dash = strchr(item, '-');
    char *begin = xasprintf("%.*s", (int)strcspn(item, "-"), item);
    int first = gpu_list_index(begin), last = dash == NULL ? first : gpu_list_index(dash + 1);
    free(begin);
    if (first < 0 || last < first)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "'%s' names no GPU, in --gpus; write indices, ranges or UUIDs: 0,2,5-7 or GPU-8e2d...", item);
    return add_range(list, first, last, error);
}

bool
gpu_list_parse(const char *text, struct word_list *list_p, struct error *error)
{
    struct word_list list = {0};
    const char *at = text;
    do {
        size_t length = strcspn(at, ",");
        char item[LONGEST_ITEM + 1];
        snprintf(item, sizeof(item), "%.*s", (int)(length < LONGEST_ITEM ? length : LONGEST_ITEM), at);
        if (!add_item(&list, item, error)) {
            words_free(list.list);
            return false;
        }
        at += length;
    } while (*at++ == ',');
    *list_p = list;
    return true;
}
