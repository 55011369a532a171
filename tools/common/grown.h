/*
 * grown.h - lists that grow by one item at a time.
 */
#ifndef DDPRUN_TOOLS_COMMON_GROWN_H
#define DDPRUN_TOOLS_COMMON_GROWN_H

#include "launcher/common/xcalloc.h"

#include <string.h>

/* A list of `count` items of `size` bytes with room for one more, which is zeroed. The room doubles at each power of
 * two, so a list that grows this way grows no other way. */
static inline void *
list_grown(void *list, size_t count, size_t size)
{
    if ((count & (count - 1)) == 0)
        list = xrealloc(list, (count == 0 ? 1 : 2 * count) * size);
    memset((char *)list + count * size, 0, size);
    return list;
}

/* The place of one more item, at the end of a list that is NULL as long as it has none. */
#define GROWN(list, count) ((list) = list_grown((list), (count), sizeof(*(list))), &(list)[(count)++])

#endif
